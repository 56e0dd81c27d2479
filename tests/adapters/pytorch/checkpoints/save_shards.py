"""One rank saves its shard: ``python -m tests.adapters.pytorch.checkpoints.save_shards RANK STORE FOLDER``."""

from __future__ import annotations

import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

if __name__ == "__main__":
    rank, store, folder = sys.argv[1:]
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=int(rank), world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    dcp.save({"w": distribute_tensor(torch.arange(24.0).reshape(6, 4), mesh, [Shard(0)])}, checkpoint_id=folder)
