"""Tensor parallelism by torch (tp), with sequence parallelism (sp), with data parallelism on a second axis (dp_tp)."""

from typing import Any

import torch
from layers import Net, batch, loss_of
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

STEPS = 2


def plan(kind: str) -> dict[str, Any]:
    cut: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"} | {"mlp.up": ColwiseParallel()}
    if kind != "sp":
        return {**cut, "attention.o": RowwiseParallel(), "mlp.down": RowwiseParallel()}
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    rows = RowwiseParallel(output_layouts=Shard(1))
    return {
        **cut,
        "norm1": SequenceParallel(),
        "norm2": SequenceParallel(),
        "attention": whole,
        "mlp": whole,
        "attention.o": rows,
        "mlp.down": rows,
    }


def spread(kind: str, size: int) -> nn.Module:
    model = Net()
    if kind == "dp_tp":
        mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
        tp = mesh["tp"]
    else:
        tp = init_device_mesh("cpu", (size,))
    for block in model.blocks:
        parallelize_module(block, tp, plan(kind))
    if kind == "sp":
        embed = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
        head = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
        parallelize_module(model, tp, {"embed": embed, "norm": SequenceParallel(), "head": head})
    if kind == "dp_tp":
        for block in model.blocks:
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    return model


def train(kind: str, rank: int, size: int, debugger: Any) -> None:
    model = spread(kind, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        debugger.start(model)
        tokens, goal = batch(10 * step + (rank // 2 if kind == "dp_tp" else 0))
        loss = loss_of(model(tokens), goal)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
