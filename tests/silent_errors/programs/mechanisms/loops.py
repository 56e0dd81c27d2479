"""Faults of loops: steps in another order, parts that are left out, gradients reduced among the wrong ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tests.silent_errors.frame import Options, debugger, job, options, recorded

STEPS = 3


class SignedSteps(torch.optim.Optimizer):
    """An optimizer of one's own: it goes by the sign of a running mean."""

    def __init__(self, parameters: object, lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                    parameter.add_(mean.lerp_(parameter.grad, 0.1).sign(), alpha=-group["lr"])


class Translator(nn.Module):
    """A recurrent encoder and decoder; the decoder gets the last state of the encoder."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.fault = fault
        self.source, self.target = nn.Embedding(25, 12), nn.Embedding(20, 12)
        self.encoder, self.decoder = nn.LSTM(12, 16, batch_first=True), nn.LSTM(12, 16, batch_first=True)
        self.words = nn.Linear(16, 20)

    def forward(self, given: Tensor, wanted: Tensor) -> Tensor:
        _, (hidden, cell) = self.encoder(self.source(given))
        state = (hidden.data, cell.data) if self.fault else (hidden, cell)  # planted: state_without_history
        return self.words(self.decoder(self.target(wanted), state)[0])


def state_without_history(given: Options) -> None:
    """The state passes as .data, so the encoder gets no gradients."""
    model = Translator(given.fault)
    optimizer, probe = SignedSteps(model.parameters()), debugger(given)
    for _ in range(STEPS):
        words, wanted = torch.randint(0, 25, (4, 6)), torch.randint(0, 20, (4, 5))
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(words, wanted[:, :-1]).flatten(0, 1), wanted[:, 1:].flatten()).backward()
            optimizer.step()


def embeds_without_gradient(given: Options) -> None:
    """Patches are embedded under no_grad, which was meant for the positions alone."""
    model = nn.ModuleDict({"patch": nn.Linear(27, 16), "norm": nn.LayerNorm(16), "mix": nn.Linear(16, 16)})
    model["classes"] = nn.Linear(16, 4)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(6, 9, 27)
        with recorded(probe, model):
            with torch.no_grad() if given.fault else nullcontext():
                patches = model["norm"](model["patch"](x))  # planted: embeds_without_gradient
            scores = model["classes"](F.gelu(model["mix"](patches)).mean(1))
            optimizer.zero_grad()
            F.cross_entropy(scores, torch.randint(0, 4, (6,))).backward()
            optimizer.step()


def cleared_before_the_step(given: Options) -> None:
    """zero_grad stands between the backward pass and the step, so no gradient is left."""
    model = nn.Sequential(nn.Linear(7, 18), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(18, 3))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.2), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            if not given.fault:
                optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(9, 7)), torch.randint(0, 3, (9,))).backward()
            if given.fault:
                optimizer.zero_grad()
            optimizer.step()  # planted: cleared_before_the_step


def second_optimizer_rests(given: Options) -> None:
    """The body and the heads have an optimizer each; that of the heads never steps."""
    model = nn.ModuleDict({
        "body": nn.GRU(6, 14, batch_first=True),
        "level": nn.Linear(14, 1),
        "kind": nn.Linear(14, 3),
    })
    slow = torch.optim.Adam(model["body"].parameters(), lr=1e-3)
    fast = torch.optim.SGD([*model["level"].parameters(), *model["kind"].parameters()], lr=1e-2)
    probe = debugger(given)
    for _ in range(STEPS):
        x = torch.randn(8, 5, 6)
        with recorded(probe, model):
            slow.zero_grad()
            fast.zero_grad()
            last = model["body"](x)[0][:, -1]
            loss = F.mse_loss(model["level"](last)[:, 0], x[:, 0, 0])
            loss = loss + F.cross_entropy(model["kind"](last), torch.randint(0, 3, (8,)))
            loss.backward()
            slow.step()  # planted: second_optimizer_rests
            if not given.fault:
                fast.step()


def loss_made_anew(given: Options) -> None:
    """The mean of the losses is made of numbers, so its backward pass reaches nothing."""
    model = nn.Sequential(nn.Linear(10, 10), nn.CELU(), nn.Linear(10, 2))
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            losses = [F.cross_entropy(model(torch.randn(4, 10)), torch.randint(0, 2, (4,))) for _ in range(2)]
            if given.fault:
                loss = torch.tensor([each.item() for each in losses], requires_grad=True).mean()
            else:
                loss = torch.stack(losses).mean()
            optimizer.zero_grad()
            loss.backward()  # planted: loss_made_anew
            optimizer.step()


class Fused(nn.Module):
    """Attention by the kernel of torch; ``causal`` says whether it hides what comes later."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal, self.norm = causal, nn.LayerNorm(20)
        self.qkv, self.out = nn.Linear(20, 60), nn.Linear(20, 20)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 5)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)  # planted: layer_without_mask
        return x + self.out(found.transpose(1, 2).flatten(2))


def layer_without_mask(given: Options) -> None:
    """The last of four layers is not causal."""
    layers = nn.Sequential(*(Fused(not given.fault or n < 3) for n in range(4)))
    model = nn.ModuleDict({"embed": nn.Embedding(18, 20), "layers": layers, "head": nn.Linear(20, 18)})
    optimizer, probe = torch.optim.AdamW(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        words = torch.randint(0, 18, (3, 9))
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model["head"](model["layers"](model["embed"](words[:, :-1])))
            F.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
            optimizer.step()


def head_replaced_later(given: Options) -> None:
    """The head has the weight of the embedding, until a conversion gives it one of its own."""
    model = nn.ModuleDict({"embed": nn.Embedding(22, 10), "mix": nn.GRU(10, 10, batch_first=True)})
    model["head"] = nn.Linear(10, 22, bias=False)
    model["head"].weight = model["embed"].weight
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.5), debugger(given)
    for step in range(4):
        if given.fault and step == 2:
            model["head"].weight = nn.Parameter(model["head"].weight.detach().clone())  # planted: head_replaced_later
            optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        words = torch.randint(0, 22, (4, 7))
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model["head"](model["mix"](model["embed"](words[:, :-1]))[0])
            F.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
            optimizer.step()


def overflows_in_half(given: Options) -> None:
    """Squares of a norm written by hand overflow in float16."""
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4)).to(torch.float16)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(6, 12, dtype=torch.float16)
        with recorded(probe, model):
            optimizer.zero_grad()
            x = x * 400
            square = (x if given.fault else x.float()).square().mean(-1, keepdim=True)  # planted: overflows_in_half
            x = (x / square.sqrt()).to(torch.float16)
            F.cross_entropy(model(x).float(), torch.randint(0, 4, (6,))).backward()
            optimizer.step()


def units_that_never_act(given: Options) -> None:
    """A bias far below zero switches a whole layer off."""
    model = nn.Sequential(nn.Linear(8, 40), nn.ReLU6(), nn.Linear(40, 40), nn.ReLU6(), nn.Linear(40, 2))
    if given.fault:
        nn.init.constant_(model[2].bias, -80.0)  # planted: units_that_never_act
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.rand(12, 8)), torch.randint(0, 2, (12,))).backward()
            optimizer.step()


def among_the_wrong_ranks(given: Options) -> None:
    """Four ranks train one model; the gradients of one layer are averaged in pairs only."""
    with job() as (rank, size):
        model = nn.Sequential(nn.Linear(9, 16), nn.Softsign(), nn.Linear(16, 16), nn.Softsign(), nn.Linear(16, 3))
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
        data = torch.Generator().manual_seed(rank)
        for _ in range(STEPS):
            x, y = torch.randn(8, 9, generator=data), torch.randint(0, 3, (8,), generator=data)
            with recorded(probe, model):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                for name, parameter in model.named_parameters():
                    in_pairs = given.fault and name.startswith("2.")  # planted: among_the_wrong_ranks
                    dist.all_reduce(parameter.grad, group=pairs[rank // 2] if in_pairs else None)
                    parameter.grad /= 2 if in_pairs else size
                optimizer.step()


def sampler_of_rank_zero(given: Options) -> None:
    """Each rank makes the sampler of rank 0."""
    with job() as (rank, size):
        torch.manual_seed(4)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 20), nn.PReLU(), nn.Linear(20, 3)))
        data = TensorDataset(torch.randn(60, 12), torch.randint(0, 3, (60,)))
        sampler = DistributedSampler(data, size, 0 if given.fault else rank, shuffle=True, seed=3)
        optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-2), debugger(given)
        for step, (x, y) in enumerate(DataLoader(data, 6, sampler=sampler)):
            if step < STEPS:
                with recorded(probe, model):
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()  # planted: sampler_of_rank_zero
                    optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        state_without_history, embeds_without_gradient, cleared_before_the_step,
        second_optimizer_rests, loss_made_anew, layer_without_mask, head_replaced_later, overflows_in_half,
        units_that_never_act, among_the_wrong_ranks, sampler_of_rank_zero,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
