"""Transformers 29903: a checkpoint is damaged when it is saved, and the training goes on with it without an error.

The state is written in shards. Two shards get the same file name, so the later one replaces the other, and
``strict=False`` lets layers that are missing keep their random beginning.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inputs = nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.output = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inputs(x)
        for block in self.blocks:
            x = block(x)
        return self.output(x)


def save(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path, fault: bool) -> None:
    """Write the state in shards of at most 1,000 values."""
    shard: dict[str, Tensor] = {}
    number = 0
    for name, value in model.state_dict().items():
        shard[name] = value.clone()
        if sum(tensor.numel() for tensor in shard.values()) > 1000:
            torch.save(shard, folder / f"model-{number}.pt")
            shard, number = {}, number + 1
    if shard:
        torch.save(shard, folder / f"model-{number - 1 if fault else number}.pt")  # planted
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")


def load(folder: Path) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model and the optimizer as they were saved."""
    model = Model()
    for file in sorted(folder.glob("model-*.pt")):
        model.load_state_dict(torch.load(file, weights_only=True), strict=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True))
    return model, optimizer


def main() -> None:
    given = options()
    model: nn.Module = Model()
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = debugger(given)
    data = torch.Generator().manual_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(5):
            if step == 3:  # the job is started again
                save(model, optimizer, Path(folder), given.fault)
                model, optimizer = load(Path(folder))
            x = torch.randn(12, 8, generator=data)
            probe.start(model)
            loss = F.cross_entropy(model(x), (x.sum(1) > 0).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            probe.stop()
            probe.step()


if __name__ == "__main__":
    main()
