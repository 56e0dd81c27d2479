"""A data-parallel training: ``python -m tests.check.learned.rank_program SEED WRONG FOLDER SIZE STORE RANK``."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.check.correct_programs import steps


def main(seed: str, wrong: str, folder: str, size: str, store: str, rank: str) -> None:
    """Train; ``wrong`` is unwrapped, same_sampler, lost_reduction or "none"."""
    from msprobe.pytorch import PrecisionDebugger

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(size))
    torch.manual_seed(int(seed))
    body = nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.ReLU())
    head = nn.Linear(16, 4)
    model = nn.ModuleDict({"body": DistributedDataParallel(body), "head": head})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * (1 + int(seed)))
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": folder})
    torch.manual_seed(100 + (0 if wrong == "same_sampler" else int(rank)) + 10 * int(seed))
    for _ in steps(debugger, model, 3 + 2 * int(seed)):
        optimizer.zero_grad()
        hidden = (body if wrong == "unwrapped" else model["body"])(torch.randn(6, 12))
        F.cross_entropy(head(hidden), torch.randint(0, 4, (6,))).backward()
        for parameter in head.parameters():
            if wrong != "lost_reduction" or parameter.dim() > 1:
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(int(size))
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
