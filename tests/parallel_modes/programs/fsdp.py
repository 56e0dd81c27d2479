"""FullyShardedDataParallel (fsdp1, fsdp1_flat), fully_shard (fsdp2), and both layers of HSDP (hsdp1, hsdp2)."""

from typing import Any

import torch
from layers import Net, batch, loss_of
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard

STEPS = 2
CPU = torch.device("cpu")


def flat(net: Net, **options: Any) -> nn.Module:
    for number, block in enumerate(net.blocks):
        net.blocks[number] = FullyShardedDataParallel(block, device_id=CPU, **options)
    return FullyShardedDataParallel(net, device_id=CPU, **options)


def sharded(net: Net, **options: Any) -> nn.Module:
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def spread(kind: str, size: int) -> nn.Module:
    if kind == "fsdp1":
        return flat(Net(), use_orig_params=True)
    if kind == "fsdp1_flat":
        return flat(Net(), use_orig_params=False)
    if kind == "fsdp2":
        return sharded(Net())
    if kind == "fsdp2_mixed":
        return sharded(Net(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicas", "shards"))
    if kind == "hsdp1":
        return flat(Net(), use_orig_params=True, device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD)
    return sharded(Net(), mesh=mesh)


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    model = spread(kind, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        debugger.start(model)
        tokens, goal = batch(10 * step + rank)
        logits = model(tokens)
        loss = loss_of(logits, goal)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
