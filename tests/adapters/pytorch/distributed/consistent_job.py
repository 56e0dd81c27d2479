"""One rank of a model of which each rank holds parts, filled by ``consistent_``: ``RANK SIZE FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from msprobe.pytorch.parallel import consistent_, shard

SHAPES = {"rows": (7, 4), "columns": (6, 5), "norm.weight": (6,)}
"""Whole parameters; the first is cut into uneven parts along axis 0, the second along axis 1."""


def model(rank: int, size: int) -> nn.Module:
    """Return the part of a rank, with values of its own."""
    torch.manual_seed(rank)
    result = nn.Module()
    rows = torch.randn(SHAPES["rows"]).tensor_split(size, 0)[rank].clone()
    columns = torch.randn(SHAPES["columns"]).tensor_split(size, 1)[rank].clone()
    result.rows = shard(nn.Parameter(rows), dim=0)
    result.columns = shard(nn.Parameter(columns), dim=-1)
    result.norm = shard(nn.LayerNorm(6, bias=False), dim=None)
    return result


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=size)
    parts = model(rank, size)
    mesh = init_device_mesh("cpu", (size,))
    parts.placed = nn.Parameter(distribute_tensor(torch.zeros(5, 3), mesh, [Shard(0)]))
    consistent_(parts, seed=3)
    values = {name: getattr(value, "_local_tensor", value).detach() for name, value in parts.named_parameters()}
    torch.save(values, folder / f"rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
