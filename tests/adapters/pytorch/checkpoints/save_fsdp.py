"""A rank of FSDP2 saves: ``python -m tests.adapters.pytorch.checkpoints.save_fsdp RANK RANKS STORE FOLDER``.

Rank 0 writes the whole state_dict beside the folder, as FOLDER.pt.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

if __name__ == "__main__":
    rank, ranks, store, folder = sys.argv[1:]
    torch.distributed.init_process_group("gloo", f"file://{store}", rank=int(rank), world_size=int(ranks))
    mesh = init_device_mesh("cpu", (int(ranks),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 13), nn.Linear(13, 5))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3, 7)).sum().backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    weights["columns"] = distribute_tensor(torch.arange(35.0).reshape(5, 7), mesh, [Shard(1)])
    weights["copies"] = distribute_tensor(torch.arange(6.0), mesh, [Replicate()])
    whole = {"model": weights, "optimizer": state, "epoch": 3, "generator": torch.Generator().get_state()}
    dcp.save(whole, checkpoint_id=folder)
    full = {name: one.full_tensor() if isinstance(one, DTensor) else one for name, one in weights.items()}
    if rank == "0":
        torch.save(full, folder + ".pt")
    torch.distributed.destroy_process_group()
