"""One rank that adds up all gradients in a buffer: ``python -m FILE RANK SIZE FOLDER KIND [FAULT]``.

The buffer is scaled and reduced, each gradient is a part of it, and all are clipped by their norm. With ``shards`` each
rank updates a part of all parameters, seen as one row.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger

SAMPLES, LARGEST = 8, 0.05


def reduced(buffer: torch.Tensor, size: int, fault: str) -> None:
    buffer.mul_(1.0 if fault == "not-averaged" else 1.0 / size)
    dist.all_reduce(buffer.clone() if fault == "copy-reduced" else buffer)


def norm_of(row: torch.Tensor, fault: str, shards: bool) -> float:
    total = torch.sum(torch.square(row)).reshape(1)
    if shards:
        dist.all_reduce(total.clone() if fault == "own-norm" else total)
    elif fault == "norm-twice":
        total = torch.add(total, total)
    return float(total.item() ** 0.5)


def main(rank: int, size: int, folder: Path, shards: bool, fault: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    own = torch.randn(SAMPLES, 6).chunk(size)[rank]
    parameters = list(model.parameters())
    flat = nn.Parameter(torch.cat([each.detach().flatten() for each in parameters]).chunk(size)[rank].clone())
    optimizer = torch.optim.AdamW([flat] if shards else parameters, lr=0.01, foreach=False)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    debugger.start(model)
    torch.mean(torch.square(model(own))).backward()
    buffer = torch.cat([each.grad.flatten() for each in parameters])  # type: ignore[union-attr]
    reduced(buffer, size, fault)
    row = buffer.chunk(size)[rank] if shards else buffer
    factor = min(LARGEST / norm_of(row, fault, shards), 1.0)
    if shards:
        flat.grad = torch.mul(row, factor)
    else:
        for each, part in zip(parameters, buffer.split([each.numel() for each in parameters]), strict=True):
            each.grad = torch.mul(part.view_as(each), factor)
    optimizer.step()
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    number, count = int(sys.argv[1]), int(sys.argv[2])
    store = dist.FileStore(f"{sys.argv[3]}.store", count)
    dist.init_process_group("gloo", store=store, rank=number, world_size=count)
    main(number, count, Path(sys.argv[3]), sys.argv[4] == "shards", sys.argv[5] if len(sys.argv) > 5 else "")
    dist.destroy_process_group()
