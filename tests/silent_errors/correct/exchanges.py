"""Correct trainings on two ranks that communicate by hand: stages, experts, statistics, vocabulary, a ring."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import Options, debugger, job, options, recorded

WIDTH, STEPS = 16, 3


def average(parameters: list[nn.Parameter], size: int) -> None:
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= size


def first_stage(stage: nn.Module) -> None:
    hidden = stage(torch.randn(5, 8))
    dist.send(hidden.detach(), 1)
    gradient = torch.empty_like(hidden)
    dist.recv(gradient, 1)
    hidden.backward(gradient)


def last_stage(stage: nn.Module) -> None:
    hidden = torch.empty(5, WIDTH)
    dist.recv(hidden, 0)
    hidden.requires_grad_()
    (F.cross_entropy(stage(hidden), torch.randint(0, 4, (5,))) / 3).backward()
    dist.send(hidden.grad, 0)


def pipeline(given: Options, rank: int, size: int) -> None:
    """Two stages; activations go forward and gradients back, in three micro batches."""
    stage = (
        nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh())
        if rank == 0
        else nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4))
    )
    optimizer, probe = torch.optim.AdamW(stage.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, stage):
            optimizer.zero_grad()
            for _ in range(3):
                (first_stage if rank == 0 else last_stage)(stage)
            optimizer.step()


def experts(given: Options, rank: int, size: int) -> None:
    """One expert per rank; each rank sends as many tokens as it likes and tells how many before."""
    model = nn.ModuleDict({
        "router": nn.Linear(WIDTH, size),
        "expert": nn.Linear(WIDTH, WIDTH),
        "head": nn.Linear(WIDTH, 3),
    })
    torch.manual_seed(30 + rank)
    nn.init.normal_(model["expert"].weight, std=0.2)
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    shared = [p for name, p in model.named_parameters() if not name.startswith("expert")]
    for _ in range(STEPS):
        with recorded(probe, model):
            x, y = torch.randn(18, WIDTH), torch.randint(0, 3, (18,))
            weight, choice = model["router"](x).softmax(-1).max(-1)
            order = choice.argsort()
            sent = torch.bincount(choice, minlength=size)
            received = torch.empty_like(sent)
            dist.all_to_all_single(received, sent)
            rows, back = received.tolist(), sent.tolist()
            there = differentiable.all_to_all_single(torch.empty(sum(rows), WIDTH), x[order], rows, back)
            here = differentiable.all_to_all_single(torch.empty(18, WIDTH), model["expert"](there), back, rows)
            result = torch.zeros_like(x).index_add(0, order, here) * weight[:, None]
            optimizer.zero_grad()
            F.cross_entropy(model["head"](x + result), y).backward()
            average(shared, size)
            optimizer.step()


class SyncNorm(nn.Module):
    """A batch norm over the samples of all ranks."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.weight, self.bias, self.size = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), size
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        sums = differentiable.all_reduce(torch.stack([x.mean(0), x.square().mean(0)])) / self.size
        mean, variance = sums[0], sums[1] - sums[0].square()
        with torch.no_grad():
            self.running_mean.lerp_(mean, 0.1)
            self.running_var.lerp_(variance, 0.1)
        return (x - mean) * (variance + 1e-5).rsqrt() * self.weight + self.bias


def sync_norm(given: Options, rank: int, size: int) -> None:
    """Data-parallel training whose batch norm sees all ranks."""
    model = nn.Sequential(nn.Linear(8, WIDTH), SyncNorm(WIDTH, size), nn.ReLU(), nn.Linear(WIDTH, 2))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), debugger(given)
    source = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        with recorded(probe, model):
            x = torch.randn(10, 8, generator=source) + rank
            optimizer.zero_grad()
            F.cross_entropy(model(x), (x.sum(-1) > 0).long()).backward()
            average(list(model.parameters()), size)
            optimizer.step()


class VocabularyParallel(nn.Module):
    """An embedding whose rows are divided; a rank gives zeros for words of the other."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.first, self.rows = rank * 20 // size, 20 // size
        self.weight = nn.Parameter(torch.randn(self.rows, WIDTH, generator=torch.Generator().manual_seed(rank)))

    def forward(self, tokens: Tensor) -> Tensor:
        mine = tokens - self.first
        outside = (mine < 0) | (mine >= self.rows)
        found = F.embedding(mine.masked_fill(outside, 0), self.weight).masked_fill(outside[..., None], 0.0)
        return differentiable.all_reduce(found)


def vocabulary(given: Options, rank: int, size: int) -> None:
    """Tensor parallelism by hand: the embedding is divided, everything else a copy; both ranks have the same data."""
    model = nn.Sequential(VocabularyParallel(rank, size), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 20))
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    source = torch.Generator().manual_seed(9)
    for _ in range(STEPS):
        with recorded(probe, model):
            tokens = torch.randint(0, 20, (4, 8), generator=source)
            optimizer.zero_grad()
            F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
            model[0].weight.grad /= size  # the sum in backward counts each copy of the loss
            optimizer.step()


def ring(given: Options, rank: int, size: int) -> None:
    """Context parallelism: each rank has a part of the sequence and all gather keys and values."""
    torch.manual_seed(4)
    model = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value", "out")})
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        whole = torch.randn(3, 8, WIDTH)
        part = whole.chunk(size, 1)[rank]
        with recorded(probe, model):
            optimizer.zero_grad()
            keys, values = (torch.cat(differentiable.all_gather(model[name](part)), 1) for name in ("key", "value"))
            seen = torch.arange(8)[None] <= torch.arange(4)[:, None] + 4 * rank
            y = F.scaled_dot_product_attention(model["query"](part), keys, values, attn_mask=seen)
            F.mse_loss(model["out"](y), part.roll(1, 1)).backward()
            average(list(model.parameters()), size)
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options, int, int], None]] = {
    each.__name__: each for each in (pipeline, experts, sync_norm, vocabulary, ring)
}

if __name__ == "__main__":
    given = options()
    with job() as place:
        PROGRAMS[given.name](given, *place)
