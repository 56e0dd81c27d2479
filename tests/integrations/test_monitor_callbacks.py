"""The monitor in the trainers of transformers and Lightning: a step per step of the optimizer, its gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.monitor.trained import rows_of

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CONFIG = {"wg_distribution": True, "xy_distribution": True, "forward_only": True}


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    return tmp_path / "out"


def test_the_trainer_of_transformers(output: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", exc_type=ImportError)
    pytest.importorskip("accelerate")
    from msprobe.pytorch.integrations import TransformersMonitor
    from tests.integrations.test_transformers import train

    plain = train(str(tmp_path / "plain"), [], accumulate=2)
    observed = train(str(tmp_path / "observed"), [TransformersMonitor(CONFIG)], accumulate=2)
    assert observed == plain
    rows = [row for row in rows_of(output, "grad_reduced") if row["name"] == "lm_head.weight"]
    assert [row["step"] for row in rows] == ["0", "1"]
    assert all(float(row["norm"]) > 0 for row in rows)
    assert {row["micro_step"] for row in rows_of(output, "actv") if row["step"] == "1"} == {"0", "1"}
    assert [row["step"] for row in rows_of(output, "grad_unreduced") if row["name"] == "lm_head.weight"] == ["0", "1"]


def test_the_trainer_of_lightning(output: Path, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    from msprobe.pytorch.integrations import LightningMonitor
    from tests.integrations.test_lightning import network

    given: list[float] = []

    class Gradients(lightning.Callback):  # type: ignore[misc]
        def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
            given.append(nn.utils.get_total_norm([module.layer.weight.grad]).item())

    trainer = lightning.Trainer(
        max_steps=3,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(tmp_path),
        callbacks=[LightningMonitor(CONFIG), Gradients()],
    )
    trainer.fit(network(lightning), torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=2))
    rows = [row for row in rows_of(output, "grad_reduced") if row["name"] == "layer.weight"]
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert [float(row["norm"]) for row in rows] == pytest.approx(given, abs=1e-6)
