"""One rank of a layer cut by hand: ``... -m tests.compare.parallel.declared_job RANK SIZE FOLDER LEVEL DECLARE FAULT``.

Two ranks have 5 and 3 of the 8 hidden units, with DECLARE ``even`` and ``silent`` 4 each: then all pieces are square.
The program says what it cuts, unless DECLARE is ``silent``. FAULT changes a parameter on the last rank.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger
from msprobe.pytorch.parallel import shard
from tests.parallel_layers import CopyInput, ReduceOutput

HIDDEN, WIDTH = 8, 4
EVEN, UNEVEN = (4, 4), (5, 3)


class Layer(nn.Module):
    """A norm that every rank has, and two products of which a rank has some hidden units."""

    def __init__(self, rank: int, lengths: tuple[int, ...], declare: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        up, down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.up = nn.Parameter(up.weight.detach().split(lengths, 0)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().split(lengths, 1)[rank].clone())
        if declare:
            shard(self.up, dim=0)
            shard(self.down, dim=-1)
            shard(self.norm, dim=None)
        self.declare = declare

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        hidden = torch.relu(F.linear(CopyInput.apply(x) if dist.is_initialized() else x, self.up))
        hidden = shard(hidden, dim=-1) if self.declare else hidden
        y = F.linear(hidden, self.down)
        return ReduceOutput.apply(y) if dist.is_initialized() else y


def main(rank: int, size: int, folder: Path, level: str, declare: str, fault: str = "") -> None:
    if size > 1:
        store = f"file://{folder.parent / (folder.name + '.store')}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    torch.manual_seed(0)
    lengths = (HIDDEN,) if size == 1 else UNEVEN if declare == "uneven" else EVEN
    model = nn.Sequential(Layer(rank, lengths, declare != "silent"))
    if fault and rank == size - 1:
        with torch.no_grad():
            dict(model.named_parameters())[fault].mul_(1.5)
    debugger = PrecisionDebugger({"task": "statistics", "level": level, "dump_path": str(folder)})
    torch.manual_seed(1)
    x = torch.randn(3, WIDTH)
    with debugger.collect(model, rank_id=rank):
        model(x).square().sum().backward()
    if size > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
