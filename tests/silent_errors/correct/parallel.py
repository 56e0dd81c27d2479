"""Correct trainings on two ranks with the ways of torch to spread one: each role of a group is respected."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from tests.silent_errors.frame import Options, debugger, job, options, recorded

warnings.simplefilter("ignore")
WIDTH, STEPS = 16, 3


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.gelu(self.w1(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.feed = nn.LayerNorm(WIDTH), Feed()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.feed(self.norm(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(24, WIDTH)
        self.layers = nn.Sequential(Layer(), Layer())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.embed(tokens))))


def data(seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(0, 24, (4, 9), generator=generator)


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def train(given: Options, model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    source, probe = data(seed), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            loss_of(model, next(source)).backward()
            optimizer.step()


def ddp(given: Options, rank: int, size: int) -> None:
    """Copies of the model, other data on each rank."""
    model = DistributedDataParallel(Model())
    train(given, model, torch.optim.AdamW(model.parameters(), lr=1e-3), rank)


def no_sync(given: Options, rank: int, size: int) -> None:
    """Gradients are reduced in the last of three micro batches only."""
    model = DistributedDataParallel(Model())
    optimizer, source, probe = torch.optim.SGD(model.parameters(), lr=0.1), data(rank), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            with model.no_sync():
                (loss_of(model, next(source)) / 3).backward()
                (loss_of(model, next(source)) / 3).backward()
            (loss_of(model, next(source)) / 3).backward()
            optimizer.step()
            optimizer.zero_grad()


def fsdp(given: Options, rank: int, size: int) -> None:
    """Parameters are sharded, other data on each rank."""
    model, mesh = Model(), init_device_mesh("cpu", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(given, model, torch.optim.AdamW(model.parameters(), lr=1e-3), rank)


def tensor(given: Options, rank: int, size: int) -> None:
    """The inner width is divided; both ranks have the same data."""
    model, mesh = Model(), init_device_mesh("cpu", (size,))
    for layer in model.layers:
        parallelize_module(layer, mesh, {"feed.w1": ColwiseParallel(), "feed.w2": RowwiseParallel()})
    train(given, model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False), 7)


def sequence(given: Options, rank: int, size: int) -> None:
    """Between the divided layers each rank has a part of the sequence; both ranks have the same data."""
    model, mesh = Model(), init_device_mesh("cpu", (size,))
    plan = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, plan)
    for layer in model.layers:
        inner = {
            "norm": SequenceParallel(),
            "feed": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed.w1": ColwiseParallel(),
            "feed.w2": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(layer, mesh, inner)
    train(given, model, torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False), 7)


def zero(given: Options, rank: int, size: int) -> None:
    """The states of the optimizer are divided among the ranks."""
    model = DistributedDataParallel(Model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
    train(given, model, optimizer, rank)


PROGRAMS: dict[str, Callable[[Options, int, int], None]] = {
    each.__name__: each for each in (ddp, no_sync, fsdp, tensor, sequence, zero)
}

if __name__ == "__main__":
    given = options()
    with job() as place:
        PROGRAMS[given.name](given, *place)
