"""One rank of a layer cut by hand: ``... -m tests.compare.parallel.declared_job RANK SIZE FOLDER LEVEL DECLARE FAULT``.

Two ranks have 5 and 3 of the 8 hidden units with DECLARE ``uneven``, else 4 each: then all pieces are square. The
program says what it cuts, unless DECLARE is ``silent``; with ``marks`` the attributes of its parameters say it, as
those of Megatron do, and with ``axes`` these alone, without the group. FAULT changes a parameter on the last rank.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

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

    def __init__(self, rank: int, lengths: tuple[int, ...], declare: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        up, down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.up = nn.Parameter(up.weight.detach().split(lengths, 0)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().split(lengths, 1)[rank].clone())
        self.declare = declare in ("even", "uneven")
        if self.declare:
            shard(self.up, dim=0)
            shard(self.down, dim=-1)
            shard(self.norm, dim=None)
        elif declare in ("marks", "axes"):
            for parameter, dim in ((self.up, 0), (self.down, 1)):
                mark(parameter, tensor_model_parallel=True, partition_dim=dim, partition_stride=1)
            for parameter in self.norm.parameters():
                mark(parameter, sequence_parallel=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        hidden = torch.relu(F.linear(CopyInput.apply(x) if dist.is_initialized() else x, self.up))
        hidden = shard(hidden, dim=-1) if self.declare else hidden
        y = F.linear(hidden, self.down)
        return ReduceOutput.apply(y) if dist.is_initialized() else y


def mark(parameter: nn.Parameter, **marks: object) -> None:
    """Set what Megatron sets on its parameters."""
    for name, value in marks.items():
        setattr(parameter, name, value)


def megatron_knows_the_ranks() -> None:
    """Let the module in which Megatron keeps its groups be imported, with all ranks in one group."""
    state: Any = ModuleType("megatron.core.parallel_state")
    state.get_tensor_model_parallel_group = lambda: dist.group.WORLD
    sys.modules[state.__name__] = state


def main(rank: int, size: int, folder: Path, level: str, declare: str, fault: str = "") -> None:
    if size > 1:
        store = f"file://{folder.parent / (folder.name + '.store')}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    if declare == "marks":
        megatron_knows_the_ranks()
    torch.manual_seed(0)
    lengths = (HIDDEN,) if size == 1 else UNEVEN if declare == "uneven" else EVEN
    model = nn.Sequential(Layer(rank, lengths, declare))
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
