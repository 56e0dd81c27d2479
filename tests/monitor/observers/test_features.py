"""Features of modules (``l2_targets``) in a training, and the names that cannot be found."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.golden_monitor.programs import Tokens, filled, text, train  # noqa: E402
from tests.monitor.trained import names_of, rows_of  # noqa: E402

pytestmark = pytest.mark.torch


def run(tmp_path: Path, **config: object) -> Path:
    from msprobe.pytorch import TrainerMon

    def begin(model: object, optimizer: object) -> TrainerMon:
        monitor = TrainerMon({"recording_l2_features": True, **config})
        monitor.set_monitor(model, optimizer)
        return monitor

    train(filled(Tokens()), text, begin, steps=1, micro_steps=2)
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))


def test_features_of_a_weight_once_a_step_and_others_with_each_call(tmp_path: Path) -> None:
    targets = {"linear_hook": [], "attention_hook": ["core_attention"], "moe_router_logit_hook": ["router"]}
    output = run(tmp_path, l2_targets=targets)
    assert {row["name"] for row in rows_of(output, "linear_hook")} >= {"qkv.linear", "out.linear"}
    assert [row["micro_step"] for row in rows_of(output, "attention_hook")] == ["0", "1"]
    assert [row["name"] for row in rows_of(output, "moe_router_logit_hook")] == ["router.moe_router"] * 2
    assert list(rows_of(output, "linear_hook")[0]) == ["vpp_stage", "name", "step", "sr", "kernel_norm"]


def test_what_cannot_be_computed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    targets = {"linear_hook": ["core_attention", "nowhere"], "attention_hook": []}
    assert not names_of(run(tmp_path, l2_targets=targets))
    assert "core_attention has no weight with two axes" in caplog.text
    assert "the model has no module nowhere" in caplog.text
    assert "l2_targets.attention_hook is empty: name the modules" in caplog.text


def test_they_are_computed_on_request_only(tmp_path: Path) -> None:
    assert not names_of(run(tmp_path, recording_l2_features=False, l2_targets={"linear_hook": []}))
