"""Correct trainings at the border of a rule: what looks like a fault in the numbers, and is meant."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 4


def _train(given: Options, model: nn.Module, loss_of: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> None:
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()


class Residual(nn.Module):
    """A block that begins as its shortcut: the last norm has a weight of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.shortcut = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4))
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(self.norm(self.conv(x)), self.shortcut(x)).relu()


def begins_as_its_shortcut(given: Options) -> None:
    """Both terms of a sum have one gradient, and one of them is zero."""
    model = nn.Sequential(Residual(), nn.Flatten(), nn.Linear(4 * 36, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _train(given, model, lambda: F.cross_entropy(model(torch.randn(5, 4, 6, 6)), torch.randint(0, 3, (5,))), optimizer)


def terms_of_opposite_sign(given: Options) -> None:
    """A term passes negations, which are not recorded."""
    model = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8), "head": nn.Linear(8, 4)})

    def loss() -> Tensor:
        x = torch.randn(6, 8)
        mixed = torch.add(-(-model["a"](x) * 0.1), model["b"](x))
        return F.cross_entropy(model["head"](mixed), torch.randint(0, 4, (6,)))

    _train(given, model, loss, torch.optim.SGD(model.parameters(), lr=0.1))


def fake_quantised(given: Options) -> None:
    """Activations are rounded to 16 steps, and gradients pass as they are."""

    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            low, high = float(x.min()), float(x.max())
            scale = (high - low) / 15 + 1e-6
            return torch.fake_quantize_per_tensor_affine(x, scale, max(0, min(15, round(-low / scale))), 0, 15)

    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), Rounded(), nn.Linear(32, 16), Rounded(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    _train(given, model, lambda: F.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 3, (6,))), optimizer)


class WithBaseline(nn.Module):
    """A policy with one learned number as the baseline of its gains."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.baseline = nn.Linear(8, 4), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.net(x), self.baseline.expand(len(x))


def one_baseline_for_all(given: Options) -> None:
    """The predictions of a baseline are equal for all samples."""
    model = WithBaseline()

    def loss() -> Tensor:
        gains = torch.randn(16)
        scores, baseline = model(torch.randn(16, 8))
        costs = F.cross_entropy(scores, torch.randint(0, 4, (16,)), reduction="none")
        return ((gains - baseline.detach()) * costs).mean() + F.mse_loss(baseline, gains)

    _train(given, model, loss, torch.optim.Adam(model.parameters(), lr=1e-2))


def head_of_zeros_accumulated(given: Options) -> None:
    """A head that begins with zeros predicts 0 for all until the first step, which comes after four micro batches."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=1e-2), debugger(given)
    for number in range(2 * STEPS):
        with recorded(probe, model):
            (F.mse_loss(model(torch.randn(8, 8)), torch.randn(8, 1)) / 4).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()


class Detector(nn.Module):
    """Returns a loss in training, and boxes in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found = self.layer(x)
        return {"loss": found.square().mean() * 0.05} if self.training else {"boxes": found.sigmoid() * 640}


def boxes_or_a_loss(given: Options) -> None:
    """The results of the two modes are different things."""
    model = nn.ModuleDict({"detector": Detector()})
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.01), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(6, 8)
        with recorded(probe, model):
            model.eval()
            with torch.no_grad():
                model["detector"](x)
            model.train()
            optimizer.zero_grad()
            model["detector"](x)["loss"].backward()
            optimizer.step()


class Flow(nn.Module):
    """Estimates a trace by random signs, in every mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        signs = torch.empty_like(x).bernoulli_(0.5) * 2 - 1
        moved = self.layer(x).tanh()
        return moved, (moved * signs).sum()


def random_signs(given: Options) -> None:
    """Random numbers are drawn in evaluation too, as the estimate needs them."""
    model = nn.ModuleDict({"flow": Flow()})
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.01), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            model.train()
            optimizer.zero_grad()
            moved, trace = model["flow"](torch.randn(6, 8))
            (moved.square().mean() - 0.01 * trace).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model["flow"](torch.randn(6, 8))


def second_phase(given: Options) -> None:
    """From the third step on one optimizer rests, whose rate is set to 0; the other one has a schedule."""
    model = nn.ModuleDict({"trunk": nn.Linear(8, 8), "head": nn.Linear(8, 4)})
    trunk, head = (torch.optim.SGD(model[name].parameters(), lr=0.1) for name in ("trunk", "head"))
    schedule, probe = torch.optim.lr_scheduler.ExponentialLR(head, 0.9), debugger(given)
    for number in range(STEPS):
        if number == 2:
            trunk.param_groups[0]["lr"] = 0.0
        with recorded(probe, model):
            trunk.zero_grad()
            head.zero_grad()
            F.cross_entropy(model["head"](model["trunk"](torch.randn(6, 8))), torch.randint(0, 4, (6,))).backward()
            trunk.step()
            head.step()
            schedule.step()


def pruned_between_steps(given: Options) -> None:
    """Half of the weights of a layer are removed between two steps."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-5), debugger(given)
    for number in range(STEPS):
        if number == 2:
            with torch.no_grad():
                model[0].weight.mul_(model[0].weight.abs() > model[0].weight.abs().median())
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 64)), torch.randint(0, 4, (6,))).backward()
            optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        begins_as_its_shortcut, terms_of_opposite_sign, fake_quantised, one_baseline_for_all,
        head_of_zeros_accumulated, boxes_or_a_loss, random_signs, second_phase, pruned_between_steps,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
