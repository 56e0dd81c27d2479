"""Gradients of two programs that name, fuse and add them up otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch


class Split(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right = nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.tanh(self.body(x))
        return self.left(hidden), self.right(hidden)


class Fused(nn.Module):
    def __init__(self, other: Split) -> None:
        super().__init__()
        self.trunk, self.both = nn.Linear(6, 5), nn.Linear(5, 8)
        self.trunk.load_state_dict(other.body.state_dict())
        with torch.no_grad():
            self.both.weight.copy_(torch.cat([other.left.weight, other.right.weight]))
            self.both.bias.copy_(torch.cat([other.left.bias, other.right.bias]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = self.both(torch.tanh(self.trunk(x))).chunk(2, -1)
        return left, right


def train(folder: Path, fused: bool, passes: bool, share: float = 0.3) -> None:
    """One backward pass for the sum of two losses, or one for each; ``share`` is the weight of the second one."""
    forget()
    torch.manual_seed(0)
    x, split = torch.randn(7, 6), Split()
    model = Fused(split) if fused else split
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        left, right = model(x)
        losses = left.square().mean(), right.square().mean() * share
        if passes:
            losses[0].backward(retain_graph=True)
            losses[1].backward()
        else:
            (losses[0] + losses[1]).backward()
    forget()


@pytest.mark.parametrize("passes", [False, True])
def test_fused_parameters_have_the_gradients_of_split_ones(recordings: Recordings, passes: bool) -> None:
    pair = recordings(train, True, passes), recordings(train, False, False)
    for target, golden in (pair, pair[::-1]):
        result = msprobe.compare(target, golden)
        assert result.verdict == "same", result.summary.first_divergence


@pytest.mark.parametrize("passes", [False, True])
def test_another_weight_of_a_loss_is_a_difference(recordings: Recordings, passes: bool) -> None:
    target = recordings(train, True, passes, 0.301)
    assert msprobe.compare(target, recordings(train, False, False)).verdict == "diverged"


def narrow(folder: Path, width: int) -> None:
    """A layer of some width under one name."""
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, width))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.randn(7, 6)).square().mean().backward()
    forget()


def test_a_parameter_of_another_shape_is_a_difference(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(narrow, 5), recordings(narrow, 4)).verdict == "diverged"


class Renamed(nn.Module):
    """The same as ``Split`` with other names, its product written out; the gradient of one head may be cut."""

    def __init__(self, other: Split, cut: bool) -> None:
        super().__init__()
        self.trunk, self.first, self.second, self.cut = other.body, other.left, other.right, cut

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.tanh(x @ self.trunk.weight.T + self.trunk.bias)
        second = hidden.detach() if self.cut else hidden
        return hidden @ self.first.weight.T + self.first.bias, second @ self.second.weight.T + self.second.bias


def train_renamed(folder: Path, form: str) -> None:
    """One step, of which the gradients alone tell where one is cut."""
    forget()
    torch.manual_seed(0)
    x, split = torch.randn(7, 6), Split()
    model = split if form == "split" else Renamed(split, form == "cut")
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        left, right = model(x)
        (left.square().mean() + right.square().mean()).backward()
    forget()


@pytest.mark.parametrize(("form", "verdict"), [("renamed", "same"), ("cut", "diverged")])
def test_a_parameter_of_another_name_has_the_gradient_of_its_like(
    recordings: Recordings, form: str, verdict: str
) -> None:
    result = msprobe.compare(recordings(train_renamed, form), recordings(train_renamed, "split"))
    assert result.verdict == verdict, result.summary.first_divergence


class Square(nn.Module):
    """Two square layers: the gradient of a transposed weight has the shape of the weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.first(x)))


def train_square(folder: Path, functions: bool, share: float = 1.0) -> None:
    """A step of a module in float32, or of functions in bfloat16, whose parameters have no names."""
    forget()
    torch.manual_seed(0)
    model, x = Square(), torch.randn(9, 8)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    kept = [one.detach().bfloat16().requires_grad_() for one in model.parameters()]
    with debugger.collect(model=model):
        if functions:
            hidden = torch.tanh(torch.addmm(kept[1], x.bfloat16(), kept[0].t()))
            loss = torch.addmm(kept[3], hidden * share + (1 - share) * hidden.detach(), kept[2].t()).float().square()
            torch.autograd.grad(loss.mean(), kept)
        else:
            model(x).square().mean().backward()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize(("share", "verdict"), [(1.0, "same"), (0.5, "diverged")])
def test_gradients_of_functions_in_another_precision(
    recordings: Recordings, share: float, verdict: str, turned: bool
) -> None:
    """Half of a gradient that is cut shows in what leaves the views of parameters, and nowhere in the forward pass."""
    pair = recordings(train_square, True, share), recordings(train_square, False)
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == verdict, result.summary.first_divergence
