"""Training programs that never compute the same values twice: each call of ``run`` is a rerun with other chance.

Weights and data are the same in all runs. What differs is what differs on real machines: masks of dropout, the order in
which atomics add, in which threads finish and in which samples arrive, layers and experts that are chosen at random.
``Fault.gain`` is a kernel that multiplies wrongly and makes no call of its own; ``Fault.extra`` makes one call more.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

LAYERS = 4
STEPS = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a run: the result of block ``layer`` times ``gain``, and calls more than in the golden run."""

    layer: int = -1
    gain: float = 1.0
    extra: int = 0


NO_FAULT = Fault()


class Chance:
    """What differs between runs, drawn from a generator of its own."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def order(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self._generator)

    def draw(self) -> float:
        return float(torch.rand((), generator=self._generator))

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._generator)


class Block(nn.Module):
    """A layer of a program. ``forward`` ends with ``self.kernel``, which is wrong in one layer of a faulty run."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__()
        self.chance = chance
        self.gain = fault.gain if fault.layer == number else 1.0
        self.extra = fault.extra if number == 0 else 0

    def kernel(self, x: Tensor) -> Tensor:
        """Return the result of the layer, without a call that is recorded."""
        for _ in range(self.extra):
            x = torch.clone(x)
        return torch.ops.aten.mul.Tensor(x, torch.ops.aten.full([], self.gain, dtype=x.dtype))


class Dropped(Block):
    """A perceptron with dropout."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__(number, chance, fault)
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.kernel(self.down(self.drop(F.gelu(self.up(self.norm(x))))))


class Scattered(Block):
    """Messages between nodes of a graph, added in bfloat16 in the order in which atomics come."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__(number, chance, fault)
        self.norm, self.lin = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        nodes = x.shape[0]
        source = (torch.arange(nodes * 8) * 5 + torch.arange(nodes * 8) // nodes * 3) % nodes
        target = (torch.arange(nodes * 8) * 7) % nodes
        messages, total = self.lin(self.norm(x)), torch.ops.aten.zeros([nodes, 32], dtype=torch.bfloat16)
        for part in self.chance.order(nodes * 8).split(nodes):
            total = torch.ops.aten.index_add(
                total, 0, target[part], torch.ops.aten.index(messages, [source[part]]).bfloat16()
            )
        return x + self.kernel(torch.tanh(total.float() / 8.0))


class Threaded(Block):
    """A product whose parts come from threads, and are added in half precision as they come."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__(number, chance, fault)
        self.norm, self.weight = nn.LayerNorm(32), nn.Parameter(torch.randn(32, 32) / 6.0)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        return x + self.kernel(torch.tanh(InThreads.apply(normed, self.weight, self.chance)))


class InThreads(torch.autograd.Function):
    """A matrix product in eight parts along its sum."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, chance: Chance) -> Tensor:  # type: ignore[no-untyped-def,override]
        ctx.save_for_backward(x, weight)
        parts = chance.order(8).tolist()
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(lambda part: (x[:, part::8] @ weight[part::8]).half(), part) for part in parts]
            result = torch.zeros(x.shape[0], weight.shape[1], dtype=torch.float16)
            for job in [*as_completed(jobs)][:: 1 if chance.draw() < 0.5 else -1]:
                result += job.result()
        return result.float()

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def,override]
        x, weight = ctx.saved_tensors
        return grad @ weight.T, x.T @ grad, None


class Convolved(Block):
    """A convolution with batch norm; the samples of the batch come in another order, some of them changed."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__(number, chance, fault)
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.kernel(self.norm(self.conv(x))))


class Skipped(Block):
    """Stochastic depth: a layer counts for half of the samples more or less, by a draw that seldom matters."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__(number, chance, fault)
        self.norm, self.lin = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        keep = torch.ops.aten.full([], 1.0 if self.chance.draw() < 0.6 else 1.01)
        return x + self.kernel(torch.ops.aten.mul.Tensor(torch.tanh(self.lin(self.norm(x))), keep))


class Routed(Block):
    """Two experts with a noisy gate."""

    def __init__(self, number: int, chance: Chance, fault: Fault) -> None:
        super().__init__(number, chance, fault)
        self.norm, self.gate = nn.LayerNorm(32), nn.Linear(32, 2)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        logits = torch.ops.aten.add.Tensor(self.gate(normed), self.chance.normal(x.shape[0], 2) * 0.05)
        share = torch.softmax(logits, dim=-1)
        mixed = sum(expert(normed) * share[:, place : place + 1] for place, expert in enumerate(self.experts))
        return x + self.kernel(torch.tanh(mixed))


class Program(nn.Module):
    """Blocks of one kind between an input and a loss."""

    def __init__(self, kind: type[Block], chance: Chance, fault: Fault) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(kind(number, chance, fault) for number in range(LAYERS))
        self.head = nn.LazyLinear(4)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x.flatten(1))


def _same_order(_: Chance, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x, y


def _shuffled(chance: Chance, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    order = chance.order(x.shape[0])
    noise = chance.normal(*x.shape) * 0.01
    return (x + noise)[order], y[order]


@dataclass(frozen=True, slots=True)
class Kind:
    block: type[Block]
    shape: tuple[int, ...] = (64, 32)
    batch: Callable[[Chance, Tensor, Tensor], tuple[Tensor, Tensor]] = _same_order
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    level: str = "mix"


KINDS = {
    "dropout": Kind(Dropped, optimizer=torch.optim.AdamW),
    "atomics": Kind(Scattered),
    "threads": Kind(Threaded),
    "shuffled": Kind(Convolved, (16, 4, 6, 6), _shuffled),
    "sometimes": Kind(Skipped, optimizer=torch.optim.Adam),
    "routed": Kind(Routed, level="L0"),
}


def run(name: str, folder: Path, chance: int, *, task: str = "statistics", fault: Fault = NO_FAULT) -> Path:
    """Train a program for two steps, recorded to ``folder``, and return the folder."""
    kind, draws = KINDS[name], Chance(chance)
    forget()
    torch.manual_seed(0)
    x = torch.randn(*kind.shape)
    y = torch.randn(kind.shape[0], 4)
    model = Program(kind.block, draws, fault)
    model.head = nn.Linear(x[0].numel(), 4)
    torch.manual_seed(1000 + chance)
    optimizer = kind.optimizer(model.parameters(), lr=1e-3)
    debugger = PrecisionDebugger({"task": task, "level": kind.level, "dump_path": str(folder), task: {}})
    try:
        for _ in range(STEPS):
            a, b = kind.batch(draws, x, y)
            with debugger.collect(model):
                loss = F.mse_loss(model(a), b)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    finally:
        forget()
    return folder
