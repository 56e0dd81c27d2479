"""One rank of data parallelism: ``python -m tests.compare.parallel.loss_job RANK SIZE FOLDER [FAULT]``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger

SAMPLES = 8


def loss_of(y: torch.Tensor, fault: str) -> torch.Tensor:
    loss = torch.mean(torch.square(y))
    return torch.mul(loss, 3 if fault == "scaled" else 1)


def main(rank: int, size: int, folder: Path, fault: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    own = torch.randn(SAMPLES, 6).chunk(size)[rank]
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    debugger.start(model)
    y = model(own)
    if fault == "between":
        y = torch.mul(y, 1.5)
    loss_of(y, fault).backward()
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    number, count = int(sys.argv[1]), int(sys.argv[2])
    store = dist.FileStore(f"{sys.argv[3]}.store", count)
    dist.init_process_group("gloo", store=store, rank=number, world_size=count)
    main(number, count, Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
    dist.destroy_process_group()
