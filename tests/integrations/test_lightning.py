"""The real Lightning trainer with the callback; skipped where Lightning is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def lightning() -> Any:
    """Return the package; its import takes seconds, which a run without these tests need not spend."""
    return pytest.importorskip("lightning")


def network(lightning: Any) -> Any:
    class Network(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self.layer(batch).square().mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Network()


def test_each_optimizer_step_is_a_step(bench: Any, lightning: Any, tmp_path: Any) -> None:
    from msprobe.pytorch.integrations import LightningCallback

    trainer = lightning.Trainer(
        max_steps=2,
        accumulate_grad_batches=2,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(tmp_path),
        callbacks=[LightningCallback(bench.config())],
    )
    trainer.fit(network(lightning), torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2))
    assert [name.rpartition("/")[0] for name in bench.folders()] == ["step0", "step1"]
    for folder in bench.folders():
        assert bench.modules(folder) == ["layer.Linear.forward.0", "layer.Linear.forward.1"]


EVALUATING = """
import lightning, torch

class Network(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))

    def training_step(self, batch, index):
        return self.layers(batch).square().mean()

    def validation_step(self, batch, index):
        self.log("loss", torch.nn.functional.l1_loss(self.layers(batch), batch[:, :1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

loader = torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2)
trainer = lightning.Trainer(
    max_steps=4, val_check_interval=1, num_sanity_val_steps=2, accelerator="cpu", devices=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Network(), loader, loader)
"""


@pytest.mark.matrix("wide")
def test_validation_is_left_out_of_a_script_that_knows_nothing_of_it(bench: Any, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(EVALUATING)
    bench.run(script, level="mix")
    assert [name.rpartition("/")[0] for name in bench.folders()] == ["step0", "step1", "step2", "step3"]
    steps = [list(bench.entries(folder)) for folder in bench.folders()]
    assert steps[0] == steps[1] == steps[2] == steps[3]
    assert [name for name in steps[0] if "l1_loss" in name or ".forward.1" in name] == []
    assert "Module.1.Linear.backward.0" in steps[0]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [[], [0], [1], [1, 2]])
def test_logged_values_are_those_of_a_run_without_the_tool(bench: Any, lightning: Any, steps: list[int]) -> None:
    from msprobe.pytorch.integrations import LightningCallback

    class Logging(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = self.layer(batch).square().mean()
            self.log("by_name", loss, on_step=True, on_epoch=True)
            self.log("by_function", loss, on_step=False, on_epoch=True, reduce_fx=torch.max)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    logged = []
    for callbacks in ([], [LightningCallback(bench.config(level="mix", step=steps))]):
        torch.manual_seed(0)
        options = dict.fromkeys(
            ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
        )
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, callbacks=callbacks, **options)
        trainer.fit(Logging(), torch.utils.data.DataLoader(torch.arange(24.0).reshape(6, 4), batch_size=2))
        logged.append({name: value.item() for name, value in trainer.callback_metrics.items()})
    assert logged[0] == logged[1] and {"by_name_epoch", "by_function"} <= set(logged[0])
    assert len(bench.folders()) == (len(steps) or 6)
