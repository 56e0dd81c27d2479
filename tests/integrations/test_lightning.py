"""The real Lightning trainer with the callback; skipped where Lightning is not installed."""

from __future__ import annotations

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
