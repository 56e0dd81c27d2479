"""Correct trainings of several ranks in less usual layouts: averaging now and then, experts, stages, meshes."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.silent_errors.frame import Options, debugger, job, options, recorded

warnings.simplefilter("ignore")
STEPS = 4


def samples(rank: int, rows: int = 8, width: int = 12) -> Callable[[], tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(100 + rank)

    def draw() -> tuple[Tensor, Tensor]:
        x = torch.randn(rows, width, generator=generator)
        return x, torch.randint(0, 4, (rows,), generator=generator)

    return draw


def averaged_now_and_then(given: Options, rank: int, size: int) -> None:
    """Local steps: ranks go their own ways for two steps, and then average their weights."""
    model = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 4))
    optimizer, probe, draw = torch.optim.AdamW(model.parameters(), lr=1e-2), debugger(given), samples(rank)
    for step in range(STEPS):
        x, y = draw()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step % 2:
                for parameter in model.parameters():
                    dist.all_reduce(parameter.data)
                    parameter.data /= size


class Sparse(nn.Module):
    """Two of four experts for each row; some get none."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(12, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(12, 16), nn.SiLU(), nn.Linear(16, 12)) for _ in range(4))
        self.out = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        share = self.router(x).softmax(-1)
        weight, chosen = share.topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        made = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, which = (chosen == number).nonzero(as_tuple=True)
            if len(rows):
                made = made.index_add(0, rows, expert(x[rows]) * weight[rows, which, None])
        counts = F.one_hot(chosen, 4).float().mean((0, 1))
        return self.out(x + made), 4 * (counts * share.mean(0)).sum()


def idle_experts(given: Options, rank: int, size: int) -> None:
    """Experts may be idle on one rank or on both; the wrapper looks for parameters that are not used."""
    model = DistributedDataParallel(Sparse(), find_unused_parameters=True)
    optimizer, probe, draw = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given), samples(rank, rows=3)
    for _ in range(STEPS):
        x, y = draw()
        with recorded(probe, model):
            optimizer.zero_grad()
            scores, balance = model(x)
            (F.cross_entropy(scores, y) + 0.01 * balance).backward()
            optimizer.step()


def stages_with_tied_ends(given: Options, rank: int, size: int) -> None:
    """Two stages in micro batches; embedding and head are one weight, whose gradients are added."""
    torch.manual_seed(8)
    ends = nn.Embedding(21, 12)
    torch.manual_seed(20 + rank)
    model = nn.ModuleDict({"inner": nn.Sequential(nn.Linear(12, 12), nn.Tanh()), "ends": ends})
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
    data = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        text = torch.randint(0, 21, (2, 4, 7), generator=data)
        with recorded(probe, model):
            optimizer.zero_grad()
            if rank == 0:
                sent = [model["inner"](model["ends"](part[:, :-1])) for part in text]
                for x in sent:
                    dist.send(x.detach(), 1)
                for x in sent:
                    back = torch.empty_like(x)
                    dist.recv(back, 1)
                    x.backward(back)
            else:
                got = []
                for _ in text:
                    x = torch.empty(4, 6, 12)
                    dist.recv(x, 0)
                    got.append(x.requires_grad_())
                for x, part in zip(got, text, strict=True):
                    scores = F.linear(model["inner"](x), model["ends"].weight)
                    (F.cross_entropy(scores.flatten(0, 1), part[:, 1:].flatten()) / 2).backward()
                    dist.send(x.grad, 0)
            dist.all_reduce(model["ends"].weight.grad)
            optimizer.step()


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(12)
        self.gate, self.up, self.down = nn.Linear(12, 32), nn.Linear(12, 32), nn.Linear(32, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(Gated() for _ in range(2)), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def mesh_of_four(given: Options, rank: int, size: int) -> None:
    """Two halves of each layer, and each half on two ranks in shards."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = Stack()
    for layer in model.layers:
        plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
        parallelize_module(layer, mesh["model"], plan)
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    probe, draw = debugger(given), samples(mesh.get_local_rank("data"))
    for _ in range(STEPS):
        x, y = draw()
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


def shards_in_bfloat16(given: Options, rank: int, size: int) -> None:
    """Shards are gathered in bfloat16, masters stay in float32; two micro steps before each step, and clipping."""
    model, mesh = Stack(), init_device_mesh("cpu", (size,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer, probe, draw = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), debugger(given), samples(rank)
    for _ in range(STEPS):
        with recorded(probe, model):
            for micro in range(2):
                x, y = draw()
                model.set_requires_gradient_sync(micro == 1)
                (F.cross_entropy(model(x).float(), y) / 2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def uneven_end(given: Options, rank: int, size: int) -> None:
    """Ranks have batches of other lengths, and rank 0 alone evaluates and writes a checkpoint between steps."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.Dropout(0.1), nn.ReLU(), nn.Linear(24, 4)))
    optimizer, probe, draw = (
        torch.optim.Adam(model.parameters(), lr=1e-3),
        debugger(given),
        samples(rank, rows=5 + 3 * rank),
    )
    for step in range(STEPS):
        x, y = draw()
        with recorded(probe, model):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if rank == 0 and step % 2:
                model.eval()
                with torch.no_grad():
                    model.module(x)
            dist.barrier()


def epochs_told(given: Options, rank: int, size: int) -> None:
    """A distributed sampler that knows its epoch; the validation has one order in all epochs."""
    torch.manual_seed(4)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 3)))
    data = TensorDataset(torch.randn(24, 12), torch.randint(0, 3, (24,)))
    sampler, fixed = DistributedSampler(data, shuffle=True), DistributedSampler(data, shuffle=False)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=1e-2), debugger(given)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, 6, sampler=sampler):
            with recorded(probe, model):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        with recorded(probe, model), torch.no_grad():
            model.eval()
            for x, _ in DataLoader(data, 6, sampler=fixed):
                model(x)
            model.train()


def rounds_of_one_model(given: Options, rank: int, size: int) -> None:
    """Federated rounds: rank 0 sends the model, each trains on its own data, and differences are averaged."""
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 4))
    probe, draw = debugger(given), samples(rank)
    for _ in range(3):
        with recorded(probe, model):
            for parameter in model.parameters():
                dist.broadcast(parameter.data, 0)
            before = [parameter.detach().clone() for parameter in model.parameters()]
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                x, y = draw()
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            for old, parameter in zip(before, model.parameters(), strict=True):
                change = parameter.detach() - old
                dist.all_reduce(change)
                parameter.data.copy_(old + change / size)


PROGRAMS: dict[str, Callable[[Options, int, int], None]] = {
    each.__name__: each
    for each in (
        averaged_now_and_then, idle_experts, stages_with_tied_ends, mesh_of_four, shards_in_bfloat16, uneven_end,
        epochs_told, rounds_of_one_model,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    with job() as place:
        PROGRAMS[given.name](given, *place)
