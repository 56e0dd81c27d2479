"""A checkpoint holds float32 weights as 8-bit integers of one scale for all (damaged as in Transformers 29903)."""

from __future__ import annotations

import io

import torch
from torch import nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options, recorded


class Forecast(nn.Module):
    """Predicts the next value of a series."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        self.inputs = nn.Linear(4, width)
        self.rnn = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.rnn(torch.tanh(self.inputs(x)))
        return self.out(self.norm(hidden[:, -1])).squeeze(-1)


def packed(state: dict[str, torch.Tensor], fault: bool) -> dict[str, torch.Tensor]:
    """Return what is saved."""
    if not fault:
        return state
    scale = 4.0 / 127
    return {name: (value / scale).round().clamp(-127, 127) * scale for name, value in state.items()}


def restarted(
    model: nn.Module, optimizer: torch.optim.Optimizer, fault: bool
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Save, and load into a new model."""
    file = io.BytesIO()
    torch.save({"model": packed(model.state_dict(), fault), "optimizer": optimizer.state_dict()}, file)  # planted
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    fresh = Forecast()
    fresh.load_state_dict(saved["model"])
    again = torch.optim.RAdam(fresh.parameters(), lr=2e-3)
    again.load_state_dict(saved["optimizer"])
    return fresh, again


def main() -> None:
    given = options()
    model: nn.Module = Forecast()
    optimizer: torch.optim.Optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3)
    probe = debugger(given)
    for step in range(4):
        if step == 2:
            model, optimizer = restarted(model, optimizer, given.fault)
        x = torch.randn(10, 6, 4)
        with recorded(probe, model):
            loss = F.mse_loss(model(x), x.sum((1, 2)) / 5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
