"""Representations without labels (variance, invariance, covariance) trained by Lightning with a warm-up per step."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 16


class Projector(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Linear(inputs, 32)
        self.norm = nn.BatchNorm1d(32)
        self.second = nn.Linear(32, outputs)

    def forward(self, x):
        return self.second(F.relu(self.norm(self.first(x))))


class VicReg(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(2, 8, 5, stride=2), nn.GELU(), nn.Conv1d(8, 8, 5, stride=2), nn.Flatten()
        )
        self.projector = Projector(8 * 5, WIDTH)

    def forward(self, x):
        return self.projector(self.encoder(x))

    def training_step(self, batch, batch_index):
        left, right = self(batch[0]), self(batch[1])
        similar = F.mse_loss(left, right)
        loss = 25 * similar
        for z in (left, right):
            z = z - z.mean(0)
            covariance = z.t() @ z / (len(z) - 1)
            spread = F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean()
            loss = loss + 25 * spread + (covariance.fill_diagonal_(0) ** 2).sum() / WIDTH
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=2e-2, momentum=0.9)
        warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda count: (count + 1) / 4)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warm, "interval": "step"}}

    def on_train_batch_end(self, outputs, batch, batch_index):
        step, loss = batch_index, outputs["loss"]
        print(f"step {step} loss {loss.item():.9f}")


pl.seed_everything(4)
model = VicReg()
with torch.no_grad():
    for weight in model.projector.parameters():
        weight.mul_(1.5)
generator = torch.Generator().manual_seed(66)
signals = torch.randn(96, 2, 32, generator=generator).cumsum(-1) * 0.3
views = [signals + 0.3 * torch.randn(signals.shape, generator=generator) for _ in range(2)]
trainer = pl.Trainer(
    max_epochs=1,
    accelerator="cpu",
    devices=1,
    gradient_clip_val=10.0,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(*views), batch_size=32))
