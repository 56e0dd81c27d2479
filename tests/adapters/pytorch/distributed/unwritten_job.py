"""One rank of two on gloo: ``python -m ...unwritten_job RANK FOLDER``. What nobody has written differs each time.

Each kind of training is recorded twice without a fault, and once with each fault. Every tensor that ``torch.empty`` and
its relatives return is filled with other random values first, as the memory of a GPU is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from msprobe.pytorch import PrecisionDebugger
from tests.leftovers import leave_something_everywhere

RANK = int(sys.argv[1])
FOLDER = Path(sys.argv[2])
FAULTS = {"healthy": 1.0, "again": 1.0, "scaled": 1.5, "lost": 0.0}
"""What the first sample of a batch is multiplied with, by mistake, in the last block."""


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 12)
        self.down = nn.Linear(12, 8)
        self.fault = "healthy"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.up(x))
        factor = torch.tensor([FAULTS[self.fault], *[1.0] * (len(x) - 1)], dtype=x.dtype).unsqueeze(1)
        hidden = torch.ops.aten.mul.Tensor(hidden, factor)  # an operator is not recorded, so the next call shows it
        result: torch.Tensor = x + self.down(hidden)
        return result


def blocks(count: int, fault: str) -> nn.ModuleList:
    torch.manual_seed(3)
    layers = nn.ModuleList([Block() for _ in range(count)])
    layers[-1].fault = fault
    return layers


def fsdp(fault: str, **options: Any) -> Callable[[], None]:
    net = nn.Sequential(*blocks(2, fault))
    for layer in net:
        fully_shard(layer, **options)
    fully_shard(net, **options)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

    def step() -> None:
        net(torch.randn(3, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def pipeline(fault: str, kind: type) -> Callable[[], None]:
    part = blocks(2, fault)[RANK]
    stage = PipelineStage(part, RANK, 2, torch.device("cpu"))
    schedule = kind(stage, n_microbatches=2, loss_fn=lambda y, goal: (y - goal).square().mean())
    optimizer = torch.optim.SGD(part.parameters(), lr=0.01)

    def step() -> None:
        x, goal = torch.randn(4, 8), torch.randn(4, 8)
        schedule.step(*([x] if RANK == 0 else []), **({"target": goal} if RANK == 1 else {}))
        optimizer.step()
        optimizer.zero_grad()

    return step


KINDS: dict[str, Callable[[str], Callable[[], None]]] = {
    "fsdp": fsdp,
    "fsdp_mixed": lambda fault: fsdp(
        fault, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    ),
    "fsdp_whole": lambda fault: fsdp(fault, reshard_after_forward=False),
    "gpipe": lambda fault: pipeline(fault, ScheduleGPipe),
    "1f1b": lambda fault: pipeline(fault, Schedule1F1B),
}


def record(kind: str, fault: str, level: str, task: str = "statistics") -> None:
    """Record two steps of one training."""
    step = KINDS[kind](fault)
    PrecisionDebugger._instance = None
    probe = PrecisionDebugger({"dump_path": str(FOLDER / task / level / kind / fault), "level": level, "task": task})
    torch.manual_seed(RANK)
    for _ in range(2):
        probe.start()
        step()
        probe.stop()
        probe.step()


def main() -> None:
    torch.set_num_threads(1)
    leave_something_everywhere()
    dist.init_process_group("gloo", init_method=f"file://{FOLDER / 'store'}", rank=RANK, world_size=2)
    for kind in KINDS:
        for fault in FAULTS:
            record(kind, fault, "L1")
        record(kind, "healthy", "L1", "overflow_check")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
