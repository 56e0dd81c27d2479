"""The gradients are never cleared, in Lightning with the optimization by hand (as Stack Overflow 60335387)."""

from __future__ import annotations

from typing import Any

import lightning as pl
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from msprobe.pytorch.integrations import LightningCallback
from tests.silent_errors.frame import options, settings


class Denoiser(pl.LightningModule):
    """Removes noise from short signals."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.fault = fault
        self.down = nn.Conv1d(1, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose1d(8, 1, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(F.elu(self.down(x)))

    def training_step(self, batch: Any, index: int) -> None:
        (clean,) = batch
        optimizer = self.optimizers()
        if not self.fault:
            optimizer.zero_grad()
        loss = F.l1_loss(self(clean + 0.1 * torch.randn_like(clean)), clean)
        self.manual_backward(loss)
        self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
        optimizer.step()  # planted

    def configure_optimizers(self) -> Any:
        return torch.optim.NAdam(self.parameters(), lr=2e-3)


def main() -> None:
    given = options()
    phases = torch.rand(32, 1, 1) * 6
    signals = TensorDataset(torch.sin(torch.linspace(0, 6, 16) + phases))
    trainer = pl.Trainer(
        max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=f"{given.out}_lightning",
        callbacks=[LightningCallback(settings(given))],
    )  # fmt: skip
    trainer.fit(Denoiser(given.fault), DataLoader(signals, batch_size=8))


if __name__ == "__main__":
    main()
