"""A rank of two on gloo that sends, receives and takes part in collectives:
``python -m tests.visualize.communicating_job RANK FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger

RANK, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
OTHER = 1 - RANK


class Talk(nn.Module):
    """Calls of every kind. Positions, keywords and defaults are mixed, and tags are received in another order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(x) for _ in range(2)]
        self.peers(x)
        dist.broadcast(x, src=1)
        dist.broadcast(x, src=0)
        dist.all_reduce(x)
        dist.all_reduce(x, group=dist.new_group([0, 1]))
        dist.all_reduce(x)
        dist.reduce(x, 1)
        dist.reduce(x, group_dst=0)
        dist.all_gather(parts, x)
        dist.gather(x, parts if RANK == 0 else None)
        dist.gather(x, parts if RANK == 1 else None, 1)
        dist.scatter(x, parts if RANK == 1 else None, src=1)
        return x

    def peers(self, x: torch.Tensor) -> None:
        answer = torch.empty_like(x)
        if RANK == 0:
            dist.send(x, dst=1)
            dist.send(x, 1)
            dist.recv(answer, src=1)
            works = [dist.isend(x, dst=1, tag=tag) for tag in (7, 3)]
        else:
            dist.recv(answer, src=0)
            dist.recv(answer, 0)
            dist.send(x, dst=0)
            works = [dist.irecv(answer, src=0, tag=tag) for tag in (3, 7)]
        for one in works:
            one.wait()
        for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, OTHER), dist.P2POp(dist.irecv, answer, OTHER)]):
            one.wait()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo", init_method=f"file://{FOLDER / 'store'}", rank=RANK, world_size=2)
    model = Talk()
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(FOLDER / "dump")})
    with debugger.collect(model):
        model(torch.arange(6.0) + RANK)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
