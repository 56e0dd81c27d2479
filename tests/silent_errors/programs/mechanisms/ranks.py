"""Faults between ranks: replicas that come apart, the same data twice, collectives that do not fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.silent_errors.frame import Options, debugger, job, options, recorded
from tests.silent_errors.programs.lossy_link import break_link

warnings.simplefilter("ignore")
STEPS = 3


def average(parameters: Iterable[nn.Parameter], size: int) -> None:
    """Average gradients over all ranks, one by one."""
    for parameter in parameters:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= size


class Over(torch.autograd.Function):
    """Adds over the ranks on the way forward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


class Under(torch.autograd.Function):
    """Adds gradients over the ranks."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class Divided(nn.Module):
    """A gated layer whose inner width the ranks share, behind a norm that all of them have."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = nn.RMSNorm(18)
        self.gate, self.up = nn.Linear(18, 24 // size, bias=False), nn.Linear(18, 24 // size, bias=False)
        self.down = nn.Linear(24 // size, 18, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = Under.apply(self.scale(x))
        return x + Over.apply(self.down(F.silu(self.gate(inner)) * self.up(inner)))


class Parts(nn.Module):
    """Each rank has a part of the sequence for its norm, and all of it for the rest."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Divided(size) for _ in range(2))
        self.last, self.head = nn.LayerNorm(18), nn.Linear(18, 5)

    def forward(self, x: Tensor, rank: int, size: int) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        mine = x.chunk(size, 1)[rank]
        return self.head(self.last(mine))


def norm_of_a_part(given: Options, rank: int, size: int) -> None:
    """The last norm sees a part of the sequence on each rank; nobody adds its gradients (as Megatron-LM 1446)."""
    model = Parts(size)
    torch.manual_seed(40 + rank)
    for layer in model.layers:
        for part in (layer.gate, layer.up, layer.down):
            nn.init.normal_(part.weight, std=0.3)
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-2), debugger(given)
    data = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        x, y = torch.randn(4, 8, 18, generator=data), torch.randint(0, 5, (4, 8), generator=data)
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model(x, rank, size)
            F.cross_entropy(scores.flatten(0, 1), y.chunk(size, 1)[rank].flatten()).backward()
            shared = [*model.head.parameters(), *(p for layer in model.layers for p in layer.scale.parameters())]
            average(shared if given.fault else [*shared, *model.last.parameters()], size)  # planted: norm_of_a_part
            optimizer.step()


def ignored_by_ddp(given: Options, rank: int, size: int) -> None:
    """A layer is on the list of parameters that DistributedDataParallel ignores."""
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.GroupNorm(2, 6), nn.SiLU(), nn.Flatten(), nn.Linear(216, 4))
    if given.fault:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
            model, ["1.weight", "1.bias"]
        )  # planted: ignored_by_ddp
    wrapped = DistributedDataParallel(model)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), debugger(given)
    data = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        x, y = torch.randn(6, 1, 8, 8, generator=data), torch.randint(0, 4, (6,), generator=data)
        with recorded(probe, wrapped):
            optimizer.zero_grad()
            F.cross_entropy(wrapped(x), y).backward()
            optimizer.step()


def unequal_start(given: Options, rank: int, size: int) -> None:
    """Ranks average their gradients, and begin with other weights."""
    if given.fault:
        torch.manual_seed(rank)  # planted: unequal_start
    model = nn.ModuleDict({"embed": nn.Embedding(25, 10), "mix": nn.GRU(10, 14, batch_first=True)})
    model["out"] = nn.Linear(14, 25)
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    data = torch.Generator().manual_seed(90 + rank)
    for _ in range(STEPS):
        words = torch.randint(0, 25, (5, 8), generator=data)
        with recorded(probe, model):
            optimizer.zero_grad()
            hidden, _ = model["mix"](model["embed"](words[:, :-1]))
            F.cross_entropy(model["out"](hidden).flatten(0, 1), words[:, 1:].flatten()).backward()
            average(model.parameters(), size)
            optimizer.step()


def ends_untied(given: Options, rank: int, size: int) -> None:
    """Embedding and head are one weight on the first and last stage; their gradients are not added."""
    torch.manual_seed(8)
    words = nn.Embedding(21, 12)
    torch.manual_seed(20 + rank)
    inner = nn.Sequential(nn.Linear(12, 12), nn.Tanh())
    model = nn.ModuleDict({"inner": inner, "ends": words})
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    data = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        text = torch.randint(0, 21, (4, 7), generator=data)
        with recorded(probe, model):
            optimizer.zero_grad()
            if rank == 0:
                x = model["inner"](model["ends"](text[:, :-1]))
                dist.send(x.detach(), 1)
                back = torch.empty_like(x)
                dist.recv(back, 1)
                x.backward(back)
            else:
                x = torch.empty(4, 6, 12)
                dist.recv(x, 0)
                x.requires_grad_()
                scores = F.linear(model["inner"](x), model["ends"].weight)
                F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten()).backward()
                dist.send(x.grad, 0)
            if not given.fault:
                dist.all_reduce(model["ends"].weight.grad)
            optimizer.step()  # planted: ends_untied


def one_loader_for_all(given: Options, rank: int, size: int) -> None:
    """Each rank shuffles the whole data with the same seed."""
    torch.manual_seed(4)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3)))
    data = TensorDataset(torch.randn(48, 12), torch.randint(0, 3, (48,)))
    sampler = None if given.fault else DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, 6, shuffle=sampler is None, sampler=sampler, generator=torch.Generator().manual_seed(7))
    optimizer, probe = torch.optim.Adagrad(model.parameters(), lr=1e-2), debugger(given)
    batches = iter(loader)
    for _ in range(STEPS):
        x, y = next(batches)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # planted: one_loader_for_all
            optimizer.step()


def epochs_alike(given: Options, rank: int, size: int) -> None:
    """The sampler is not told the epoch, so each epoch has the order of the first."""
    torch.manual_seed(4)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3)))
    data = TensorDataset(torch.randn(36, 12), torch.randint(0, 3, (36,)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, 6, sampler=sampler)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=1e-2), debugger(given)
    for epoch in range(3):
        if not given.fault:
            sampler.set_epoch(epoch)
        for x, y in loader:
            with recorded(probe, model):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()  # planted: epochs_alike
                optimizer.step()


def other_order(given: Options, rank: int, size: int) -> None:
    """One rank reduces its gradients from the last layer to the first, and layers have one shape."""
    model = nn.Sequential(*(nn.Linear(10, 10, bias=False) for _ in range(4)))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.05), debugger(given)
    data = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        x = torch.randn(8, 10, generator=data)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            order = list(model.parameters())
            for parameter in reversed(order) if given.fault and rank == 1 else order:
                dist.all_reduce(parameter.grad)  # planted: other_order
                parameter.grad /= size
            optimizer.step()


def other_shape(given: Options, rank: int, size: int) -> None:
    """One rank gathers a transposed matrix: as many numbers, other places."""
    model = nn.Sequential(nn.Linear(8, 6), nn.Sigmoid(), nn.Linear(6, 4))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.05), debugger(given)
    data = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        x, y = torch.randn(8, 8, generator=data), torch.randint(0, 4, (8,), generator=data)
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model(x)
            F.cross_entropy(scores, y).backward()
            average(model.parameters(), size)
            kept = scores.detach().mT.contiguous() if given.fault and rank == 1 else scores.detach()
            found = [torch.empty_like(kept) for _ in range(size)]
            dist.all_gather(found, kept)  # planted: other_shape
            optimizer.step()


def lost_in_broadcast(given: Options, rank: int, size: int) -> None:
    """What rank 0 sends at the start arrives on rank 1 in part only (emulated hardware)."""
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(14, 28), nn.Hardswish(), nn.Linear(28, 6))
    if given.fault:
        break_link("broadcast", 1, share=0.2)
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    data = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        x, y = torch.randn(8, 14, generator=data), torch.randint(0, 6, (8,), generator=data)
        with recorded(probe, model):
            if step == 0:
                for parameter in model.parameters():
                    dist.broadcast(parameter.data, 0)  # planted: lost_in_broadcast
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            average(model.parameters(), size)
            optimizer.step()


def inner_model_called(given: Options, rank: int, size: int) -> None:
    """The loop calls the model inside its wrapper, so nobody reduces gradients."""
    model = nn.Sequential(nn.Embedding(19, 8), nn.Flatten(), nn.Linear(40, 16), nn.ReLU(), nn.Linear(16, 2))
    wrapped = DistributedDataParallel(model)
    called = wrapped.module if given.fault else wrapped
    optimizer, probe = torch.optim.Adam(wrapped.parameters(), lr=1e-2), debugger(given)
    data = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        words, y = torch.randint(0, 19, (6, 5), generator=data), torch.randint(0, 2, (6,), generator=data)
        with recorded(probe, wrapped):
            optimizer.zero_grad()
            F.cross_entropy(called(words), y).backward()  # planted: inner_model_called
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options, int, int], None]] = {
    each.__name__: each
    for each in (
        norm_of_a_part, ignored_by_ddp, unequal_start, ends_untied, one_loader_for_all, epochs_alike, other_order,
        other_shape, lost_in_broadcast, inner_model_called,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    with job() as place:
        PROGRAMS[given.name](given, *place)
