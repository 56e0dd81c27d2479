"""One rank of two on gloo: ``python -m ...compiled_job RANK FOLDER BACKEND...``.

A model that communicates, eager and compiled.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

RANK, FOLDER = int(sys.argv[1]), Path(sys.argv[2])


class Parallel(nn.Module):
    def __init__(self, group: Any) -> None:
        super().__init__()
        self.first, self.last, self.group = nn.Linear(4, 4), nn.Linear(4, 2), group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.all_reduce(self.first(x), "sum", self.group)
        gathered = functional.all_gather_tensor(x, 0, [0, 1])
        with torch.no_grad():
            scale = gathered.abs().mean()
            dist.all_reduce(scale, group=self.group)
        result: torch.Tensor = self.last(gathered) / scale
        return result


def train(model: nn.Module, called: Any) -> tuple[torch.Tensor, ...]:
    model.zero_grad()
    loss = called(torch.linspace(0, 1 + RANK, 12).reshape(3, 4)).pow(2).sum()
    loss.backward()
    return loss.detach(), *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None)


def main() -> None:
    dist.init_process_group("gloo", init_method=f"file://{FOLDER}/store", rank=RANK, world_size=2)
    torch.manual_seed(RANK)
    model = Parallel(dist.new_group([0, 1]))
    for backend in ("none", *sys.argv[3:]):
        called = model if backend == "none" else torch.compile(model, backend=backend)
        idle = train(model, called)
        forget()
        debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(FOLDER / backend)})
        debugger.start(model)
        observed = train(model, called)
        debugger.stop()
        debugger.step()
        forget()
        for before, after in zip(idle, observed, strict=True):
            assert torch.equal(before, after) if backend != "inductor" else torch.allclose(before, after)
    dist.barrier()
    dist.destroy_process_group()


main()
