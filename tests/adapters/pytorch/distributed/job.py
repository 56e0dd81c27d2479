"""One rank of a job of two, on gloo: ``python -m ...job RANK FOLDER``. Dumps and what it saw lie in FOLDER afterwards.

All checks share this one job, because starting processes costs more than everything they do.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from msprobe.pytorch import PrecisionDebugger
from tests.adapters.pytorch.distributed import flat, sharded

RANK = int(sys.argv[1])
FOLDER = Path(sys.argv[2])
OTHER = 1 - RANK
NAMES = ("all_reduce", "isend", "irecv", "batch_isend_irecv", "P2POp", "init_process_group")
SEEN: dict[str, Any] = {}


def debugger(name: str, level: str, task: str = "statistics", **section: Any) -> Any:
    PrecisionDebugger._instance = None
    config = {"task": task, "dump_path": str(FOLDER / name), "level": level, task: section}
    (FOLDER / f"{name}{RANK}.json").write_text(json.dumps(config))
    return PrecisionDebugger(str(FOLDER / f"{name}{RANK}.json"))


def full(value: float) -> torch.Tensor:
    return torch.full((3,), float(value))


def move() -> None:
    """The process group comes while a step is open."""
    probe = debugger("move", "L1", "tensor")
    probe.start()
    F.relu(full(1))
    store = f"file://{FOLDER / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=RANK, world_size=2)
    SEEN["moved_at_once"] = (FOLDER / "move" / "step0" / f"rank{RANK}").is_dir()
    F.gelu(full(1))
    probe.stop()
    probe.step()


def collectives() -> None:
    early = dist.P2POp(dist.isend, full(30 + RANK), OTHER)  # made before the start
    originals = [getattr(owner, name) for owner in (dist, c10d) for name in NAMES]
    send = dist.isend
    wait = dist.Work.wait
    probe = debugger("collectives", "L1")
    probe.start()
    blocking()
    works = asynchronous()
    batched(early, send)
    late, forgotten = full(RANK), full(RANK)
    late_work = dist.all_reduce(late, async_op=True)
    forgotten_work = dist.all_reduce(forgotten, async_op=True)
    made_inside = [dist.P2POp(dist.isend, full(1), OTHER), dist.P2POp(dist.irecv, full(0), OTHER)]
    SEEN["signature"] = str(inspect.signature(dist.all_reduce)) == str(inspect.signature(originals[0]))
    probe.stop()
    late_work.wait()
    SEEN["works"] = works
    for work in dist.batch_isend_irecv(made_inside):
        work.wait()
    SEEN["arrived_after_stop"] = made_inside[1].tensor.tolist()
    probe.step()
    SEEN["restored"] = [getattr(owner, name) for owner in (dist, c10d) for name in NAMES] == originals
    SEEN["wait_restored"] = dist.Work.wait is wait
    forgotten_work.wait()
    try:
        dist.P2POp(dist.all_reduce, full(1), OTHER)
    except ValueError as error:
        SEEN["wrong_operation"] = str(error)[:12]


def blocking() -> None:
    value = full(RANK + 1)
    dist.all_reduce(value, op=dist.ReduceOp.SUM)  # 3
    gathered = [full(-1), full(-1)]
    c10d.all_gather(tensor_list=gathered, tensor=full(RANK))
    part = full(-1)
    dist.reduce_scatter(part, [full(1), full(2)])
    pieces = [full(10), full(20)] if RANK == 0 else None
    dist.scatter(part, pieces, src=0)
    collected = [full(-1), full(-1)] if RANK == 0 else None
    dist.gather(full(RANK), collected, dst=0)
    dist.all_reduce(value, group=dist.group.WORLD)
    if RANK == 0:
        dist.send(full(7), dst=1)
    else:
        SEEN["source"] = dist.recv(tensor=part, src=0)
    try:
        dist.broadcast(value, src=5)
    except (ValueError, RuntimeError) as error:
        SEEN["error"] = type(error).__name__


def asynchronous() -> list[bool]:
    value = full(RANK + 1)
    work = dist.all_reduce(value, async_op=True)
    answers = [isinstance(work, dist.Work), type(work) is dist.Work, work.wait(), work.is_completed()]
    value.fill_(99)  # after the wait: not what the call gave
    if RANK == 0:
        dist.isend(full(5), dst=1).wait()
    else:
        buffer = full(-1)
        dist.irecv(buffer, src=0).wait()
    return answers


def batched(early: dist.P2POp, send: Any) -> None:
    buffers = [full(-1), full(-2)]
    operations = [
        early,
        dist.P2POp(dist.irecv, buffers[0], OTHER),
        dist.P2POp(send, full(40 + RANK), OTHER),
        dist.P2POp(c10d.irecv, buffers[1], OTHER),
    ]
    works = dist.batch_isend_irecv(operations)
    for position, work in enumerate(works):
        work.wait()
        if position == 1:
            buffers[0].fill_(0)  # the user's again, while others are outstanding
    SEEN["batch"] = [buffer.tolist() for buffer in buffers]


def coalesced(name: str, later: bool) -> None:
    """Calls that run together when their manager ends, or is waited for."""
    probe = debugger(name, "L1")
    values = [full(RANK + 1), full(RANK + 2)]
    probe.start()
    with c10d._coalescing_manager(async_ops=later) as manager:
        for value in values:
            dist.all_reduce(value)
    if later:
        manager.wait()
    torch.neg(values[0])
    probe.stop()
    probe.step()
    SEEN[name] = [value.tolist() for value in values]


def placements() -> None:
    """Tensors spread over a mesh in every way, kept as files too."""
    probe = debugger("placements", "L1", "tensor", memory=True)
    mesh = init_device_mesh("cpu", (2,))
    split = distribute_tensor(torch.arange(8.0).reshape(4, 2), mesh, [Shard(0)])
    whole = distribute_tensor(full(3), mesh, [Replicate()])
    probe.start()
    F.relu(split)
    F.relu(whole)
    F.softplus(split.sum())
    torch.sum(split)
    probe.stop()
    probe.step()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.gelu(self.first(x)))


def network(kind: str) -> nn.Module:
    torch.manual_seed(5)
    net = Net()
    if kind == "ddp":
        return DistributedDataParallel(net)
    fully_shard(net.first)
    fully_shard(net)
    with torch.no_grad():
        net(torch.ones(1, 4))  # what belongs to the model itself stays whole after that
    return net


def train(kind: str, observed: bool) -> list[float]:
    """Losses and parameters after two steps."""
    net = network(kind)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    probe = debugger(kind, "mix") if observed else None
    torch.manual_seed(RANK)
    numbers: list[float] = []
    for _ in range(2):
        if probe is not None:
            probe.start(model=net)
        loss = net(torch.randn(3, 4)).square().mean()
        loss.backward()
        SEEN["gradients"] = [extremes(parameter.grad) for parameter in net.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        if probe is not None:
            probe.stop()
            probe.step()
        numbers.append(loss.item())
    for parameter in net.parameters():
        numbers += local(parameter).flatten().tolist()
    return numbers


def local(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach()


def extremes(tensor: torch.Tensor) -> list[float]:
    return [local(tensor).max().item(), local(tensor).min().item()]


def shards() -> list[float]:
    """The extremes of the first layer's weight, as this rank holds it, before training."""
    return extremes(network("fsdp").first.weight)


def same_rank() -> None:
    """Both processes say they are rank 0; the second begins when the first is through with its step."""
    probe = debugger("same_rank", "L1")
    for step in range(2):
        if RANK == 1:
            dist.barrier()
        probe.start(rank_id=0)
        F.relu(full(RANK + 1))
        probe.stop()
        probe.step()
        if RANK == 0:
            dist.barrier()
        SEEN.setdefault("steps", []).append(step)
    dist.barrier()


def main() -> None:
    torch.set_num_threads(1)
    SEEN["pid"] = os.getpid()
    move()
    collectives()
    coalesced("coalesced", later=False)
    coalesced("coalesced_later", later=True)
    placements()
    for kind in ("ddp", "fsdp"):
        SEEN[kind] = [train(kind, observed) for observed in (False, True)]
    SEEN["shards"] = shards()
    SEEN["sharded"] = sharded.run(FOLDER, RANK)
    SEEN["flat"] = flat.run(FOLDER, RANK)
    same_rank()
    dist.destroy_process_group()
    (FOLDER / f"seen{RANK}.json").write_text(json.dumps(SEEN))


if __name__ == "__main__":
    main()
