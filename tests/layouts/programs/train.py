"""Two steps of training in a layout."""

from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist
from gradients import finalize
from layers import LENGTH, SAMPLES, WORDS
from model import make_chunks
from optimizers import Optimizer, ShardedOptimizer
from schedules import run_step
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from weights import cuts_of

STEPS = 2


def batch(step: int) -> torch.Tensor:
    """Return the tokens of a step; the labels of tokens are those after them."""
    source = torch.Generator().manual_seed(100 + step)
    return torch.randint(WORDS, (LENGTH + 1, SAMPLES), generator=source)


def loss_of(losses: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return what gradients are made of, and the mean loss of the tokens of a micro batch on all ranks."""
    cp, dp = ps.group("cp"), ps.group("dp")
    total = torch.sum(losses)
    count = torch.tensor([float(losses.numel())])
    dist.all_reduce(count, group=cp.handle)
    loss = torch.div(total, count)
    shown = loss.detach().clone()
    dist.all_reduce(shown, group=ps.group("dp_cp").handle)
    loss = torch.mul(loss, cp.size)
    loss = torch.div(loss, ps.LAYOUT.micro)
    return loss, shown.item() / dp.size


def wrapped(chunk: nn.Module) -> nn.Module:
    """Spread a model over data-parallel ranks as torch does it, where the layout says so."""
    if ps.LAYOUT.data == "ddp":
        return DistributedDataParallel(chunk)
    if ps.LAYOUT.data in ("fsdp2", "hsdp"):
        replicas = 2 if ps.LAYOUT.data == "hsdp" else 1
        shape, names = (replicas, ps.LAYOUT.dp // replicas), ("replicas", "shards")
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        mesh = mesh if replicas > 1 else mesh["shards"]
        decoder: Any = chunk.decoder
        for layer in decoder.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(chunk, mesh=mesh)
    return chunk


def state_of(chunk: nn.Module, cuts: dict[str, Any]) -> dict[str, tuple[Any, torch.Tensor]]:
    """Return the parameters of a rank by their names in the whole model."""
    result = {}
    for name, each in chunk.named_parameters():
        whole = each.full_tensor() if isinstance(each, DTensor) else each
        cut = cuts[name.removeprefix("module.")]
        result[cut.name] = cut, whole.detach().float().view(cut.shape)
    return result


def train(layout: Any, rank: int, debugger: Any) -> dict[str, Any]:
    """Return the mean loss of each step, where this rank has it, and the parameters after the last one."""
    ps.initialize(layout, rank)
    chunks = make_chunks()
    cuts = [cuts_of(chunk) for chunk in chunks]
    chunks = [wrapped(chunk) for chunk in chunks]
    parameters = [each for chunk in chunks for each in chunk.parameters()]
    optimizer = (ShardedOptimizer if layout.data == "zero1" else Optimizer)(parameters)
    means = []
    for step in range(STEPS):
        debugger.start(chunks if len(chunks) > 1 else chunks[0])
        losses = run_step(chunks, batch(step), step, loss_of)
        finalize(chunks)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
        means += [sum(losses) / len(losses)] if losses else []
    state = {}
    for chunk, own in zip(chunks, cuts, strict=True):
        state |= state_of(chunk, own)
    parts = {name: (cut.axis, cut.index, cut.count, part) for name, (cut, part) in state.items()}
    return {"losses": means, "parameters": parts}
