"""The model of ``mindspore_job`` in PyTorch.

``python -m tests.mindspore_layouts.torch_job RANK SIZE FOLDER DECLARE FAULT`` is one of SIZE ranks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger
from msprobe.pytorch.parallel import shard
from tests import parallel_layers
from tests.mindspore_layouts.first_values import EVEN, HIDDEN, UNEVEN, WIDTH, parts, samples


class CopyInput(nn.Module):
    """To all ranks; gradients add up, unless that is forgotten."""

    def __init__(self, forgotten: bool) -> None:
        super().__init__()
        self.forgotten = forgotten

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        communicates = dist.is_initialized() and not self.forgotten
        return parallel_layers.CopyInput.apply(x) if communicates else x.clone()


class ReduceOutput(CopyInput):
    """Partial sums add up, unless that is forgotten; the gradient is the same on all ranks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        communicates = dist.is_initialized() and not self.forgotten
        return parallel_layers.ReduceOutput.apply(x) if communicates else x.clone()


class Layer(nn.Module):
    """A norm that every rank has, and two products of which a rank has some hidden units."""

    def __init__(self, values: dict[str, Any], declare: bool, fault: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.norm.weight = nn.Parameter(torch.tensor(values["scale"]))
        self.up = nn.Parameter(torch.tensor(values["up"]))
        self.down = nn.Parameter(torch.tensor(values["down"]))
        if declare:
            shard(self.up, dim=0)
            shard(self.down, dim=-1)
            shard(self.norm, dim=None)
        self.declare = declare
        self.factor = 1.5 if fault == "scale" else 1.0
        self.enter, self.leave = CopyInput(fault == "gradient"), ReduceOutput(fault == "sum")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(F.linear(self.enter(self.norm(x)), self.up))
        hidden = shard(hidden, dim=-1) if self.declare else hidden
        return x + self.leave(F.linear(hidden, self.down)) * self.factor


def main(rank: int, size: int, folder: Path, declare: str, fault: str = "") -> None:
    if size > 1:
        store = f"file://{folder.parent / (folder.name + '.store')}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    lengths = (HIDDEN,) if size == 1 else UNEVEN if declare == "uneven" else EVEN
    values = parts(rank, lengths, fault)
    layers = [Layer(each, declare != "silent", fault if place == 1 else "") for place, each in enumerate(values)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    for _ in range(2):
        optimizer.zero_grad()
        with debugger.collect(model, rank_id=rank):
            torch.square(model(torch.tensor(samples(), requires_grad=True))).sum().backward()
            optimizer.step()
    if size > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
