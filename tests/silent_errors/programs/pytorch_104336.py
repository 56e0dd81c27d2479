"""PyTorch 104336: moving a model that DistributedDataParallel has wrapped loses its hooks, so no gradient is reduced.

On a GPU ``ddp.cpu()`` and back makes new parameters. Here the conversion to float64 and back does, with the switch of
torch that lets conversions make new parameters. The optimizer gets the new ones; each rank trains a model of its own.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.silent_errors.frame import debugger, job, options


class Regressor(nn.Module):
    """A network for tabular data."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.ReLU())
        self.hidden = nn.Linear(32, 32)
        self.output = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(x)
        return self.output(torch.relu(self.hidden(x)) + x).squeeze(-1)


def prepare(fault: bool) -> DistributedDataParallel:
    """Wrap the model, after or before it is moved."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    model = Regressor()
    if not fault:
        model.to(torch.float64).to(torch.float32)
    wrapped = DistributedDataParallel(model)
    if fault:
        wrapped.to(torch.float64).to(torch.float32)  # planted
    return wrapped


def batches(rank: int, count: int):
    generator = torch.Generator().manual_seed(rank)
    weights = torch.linspace(-1, 1, 12)
    for _ in range(count):
        x = torch.randn(16, 12, generator=generator)
        yield x, x @ weights + 0.1 * torch.randn(16, generator=generator)


def main() -> None:
    given = options()
    with job() as (rank, _):
        model = prepare(given.fault)
        probe = debugger(given)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for x, y in batches(rank, 4):
            probe.start(model)
            optimizer.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
