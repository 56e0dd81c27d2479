"""Trainings of two or four ranks: ``python -m tests.check.rank_programs PROGRAM WRONG FOLDER SIZE STORE RANK``.

Each program is right, or has one planted fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.check.correct_programs import STEPS, Debugger, step, steps

Program = Callable[[Debugger, bool], None]


def perceptron() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 8), torch.randint(0, 4, (6,))


def seed_data(same: bool = False) -> None:
    torch.manual_seed(100 if same else 100 + dist.get_rank())


def bypassed(debugger: Debugger, wrong: bool) -> None:
    """The model is called without its wrapper, so nothing reduces its gradients."""
    model = DistributedDataParallel(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data()
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy((model.module if wrong else model)(data), classes).backward()
            optimizer.step()


def left_out(debugger: Debugger, wrong: bool) -> None:
    """A head beside the wrapped body is not part of any wrapper."""
    body, head = perceptron(), nn.Linear(4, 3)
    model = nn.ModuleDict({
        "body": DistributedDataParallel(body),
        "head": head if wrong else DistributedDataParallel(head),
    })
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data()
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy(model["head"](model["body"](data)), classes % 3).backward()
            optimizer.step()


def same_data(debugger: Debugger, wrong: bool) -> None:
    model = DistributedDataParallel(perceptron())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    seed_data(same=wrong)
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy(model(data), classes).backward()
            optimizer.step()


class Sum(torch.autograd.Function):
    """Adds over the ranks on the way forward, and passes gradients on."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Copy(torch.autograd.Function):
    """Passes on, and adds gradients over the ranks."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Block(nn.Module):
    """A block whose two matrices are divided over the ranks, with a norm before them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.norm = nn.LayerNorm(8)
        torch.manual_seed(20 + dist.get_rank())
        self.up, self.down = nn.Linear(8, 6), nn.Linear(6, 8, bias=False)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + Sum.apply(self.down(torch.tanh(self.up(Copy.apply(self.norm(x))))))


def clipped_on_one_rank(debugger: Debugger, wrong: bool) -> None:
    """Ranks share layers; one of them alone clips its gradients, so the norms they hold in common come apart."""
    model = nn.Sequential(Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data(same=True)
    for _ in range(STEPS):
        data, _ = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            if wrong and dist.get_rank() == 1:
                nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
            optimizer.step()


class Exchange(torch.autograd.Function):
    """Sends rows to the ranks that hold their expert."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, sent: list[int], expected: list[int]) -> torch.Tensor:
        context.sizes = sent, expected
        result = x.new_empty(sum(expected), *x.shape[1:])
        dist.all_to_all_single(result, x.contiguous(), expected, sent)
        return result

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        sent, expected = context.sizes
        result = gradient.new_empty(sum(sent), *gradient.shape[1:])
        dist.all_to_all_single(result, gradient.contiguous(), sent, expected)
        return result, None, None


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sent = [2, 4] if dist.get_rank() == 0 else [3, 3]
        expected = [2, 3] if dist.get_rank() == 0 else [4, 3]
        return Exchange.apply(torch.tanh(self.own(Exchange.apply(x, sent, expected))), expected, sent)


def expert_parallel(debugger: Debugger, wrong: bool) -> None:
    """Each rank holds another expert, begun with the same numbers; the router in front is a replica."""
    torch.manual_seed(7)
    model = nn.ModuleDict({"front": nn.Linear(8, 8), "experts": Experts()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data()
    for _ in range(STEPS):
        data, _ = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            model["experts"](model["front"](data)).square().mean().backward()
            for parameter in model["front"].parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()


class RoutedExperts(Experts):
    """The router lies inside of the module that exchanges tokens, and no name says which part is an expert."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.sigmoid(self.gate(x)) * x)


def router_alone(debugger: Debugger, wrong: bool) -> None:
    """The gradient of the router is not reduced, as those of the experts are not."""
    torch.manual_seed(7)
    model = nn.ModuleDict({"front": nn.Linear(8, 8), "moe": RoutedExperts()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data()
    for _ in range(STEPS):
        data, _ = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            model["moe"](model["front"](data)).square().mean().backward()
            for parameter in [*model["front"].parameters(), *(() if wrong else model["moe"].gate.parameters())]:
                dist.all_reduce(parameter.grad)
            optimizer.step()


def pipeline(debugger: Debugger, wrong: bool) -> None:
    """Two stages with the same names of layers, begun with the same numbers."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data(same=True)
    for _ in range(STEPS):
        data, _ = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            if dist.get_rank() == 0:
                out = model(data)
                dist.send(out.detach(), 1)
                gradient = torch.empty_like(out)
                dist.recv(gradient, 1)
                out.backward(gradient)
            else:
                given = torch.empty(6, 8)
                dist.recv(given, 0)
                given.requires_grad_()
                model(given).square().mean().backward()
                dist.send(given.grad, 0)
            optimizer.step()


def sharded(debugger: Debugger, wrong: bool) -> None:
    """FSDP2 with a synchronised loss, and an optimizer on shards."""
    from torch.distributed.fsdp import fully_shard

    model = perceptron()
    fully_shard(model[0])
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    seed_data()
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy(model(data), classes).backward()
            optimizer.step()


def own_norm(debugger: Debugger, wrong: bool) -> None:
    """Shards are clipped by a norm that is made by hand: that of all, or that of the shards of this rank."""
    from torch.distributed.fsdp import fully_shard

    model = perceptron()
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    seed_data()
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy(model(data), classes).backward()
            shards = [parameter.grad.to_local() for parameter in model.parameters()]
            total = torch.stack([shard.square().sum() for shard in shards]).sum()
            if not wrong:
                dist.all_reduce(total)
            for shard in shards:
                shard.mul_(0.01 / total.sqrt())
            optimizer.step()


def own_rate(debugger: Debugger, wrong: bool) -> None:
    """A scheduler follows the loss: that of all ranks, or that of this rank."""
    from torch.distributed.fsdp import fully_shard

    model = perceptron()
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    seed_data()
    for number in range(STEPS + 1):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy(model(data), classes).backward()
            optimizer.step()
            measured = torch.tensor(float(number) if dist.get_rank() else -(1e3**number))
            if not wrong:
                dist.all_reduce(measured)
            schedule.step(measured)


def by_hand(debugger: Debugger, wrong: bool) -> None:
    """Gradients are averaged by hand; wrong ranks lose data on the way."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data()
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            F.cross_entropy(model(data), classes).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(dist.get_world_size())
            optimizer.step()


def lose_data() -> None:
    """Emulate hardware that loses what crosses between devices: rank 1 gets a part of each result."""
    original = dist.distributed_c10d.all_reduce

    def all_reduce(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        work = original(tensor, *args, **kwargs)
        if dist.get_rank() == 1:
            with torch.no_grad():
                tensor.view(-1)[tensor.numel() // 2 :] = 0.0
        return work

    dist.all_reduce = dist.distributed_c10d.all_reduce = all_reduce


def other_operation(debugger: Debugger, wrong: bool) -> None:
    """Ranks evaluate, and reduce their scores by another operation."""
    model = DistributedDataParallel(perceptron())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seed_data()
    for _ in range(STEPS):
        data, classes = batch()
        with step(debugger, model):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), classes)
            loss.backward()
            optimizer.step()
            score = torch.stack([loss.detach(), loss.detach() ** 2])
            dist.all_reduce(score, op=dist.ReduceOp.MAX if wrong and dist.get_rank() else dist.ReduceOp.SUM)


def zero_redundancy(debugger: Debugger, wrong: bool) -> None:
    """An optimizer that shares its state among ranks, a synchronised batch norm, and several micro steps."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.manual_seed(7)
    model: Any = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    model = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
    seed_data()
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        data, classes = batch()
        with model.no_sync():
            F.cross_entropy(model(data), classes).backward()
        data, classes = batch()
        F.cross_entropy(model(data), classes).backward()
        optimizer.step()


PLANTED: dict[str, tuple[Program, str, str]] = {
    "bypassed": (bypassed, "replicas_apart", "0"),
    "left_out": (left_out, "replicas_apart", "head"),
    "same_data": (same_data, "same_data_on_ranks", "linear"),
    "clipped_on_one_rank": (clipped_on_one_rank, "replicas_apart", "norm"),
    "router_alone": (router_alone, "replicas_apart", "moe.gate"),
    "own_norm": (own_norm, "shards_scaled_apart", ""),
    "own_rate": (own_rate, "steps_differ_on_ranks", ""),
    "by_hand": (by_hand, "collective_result_wrong", "all_reduce"),
    "other_operation": (other_operation, "collectives_differ", "all_reduce"),
}
CORRECT: dict[str, Program] = {
    program.__name__: program for program in (expert_parallel, pipeline, sharded, zero_redundancy)
}


def main(name: str, wrong: str, folder: str, size: str, store: str, rank: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(size))
    if name == "by_hand" and wrong == "wrong":
        lose_data()
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": folder})
    program = PLANTED[name][0] if name in PLANTED else CORRECT[name]
    program(debugger, wrong == "wrong")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
