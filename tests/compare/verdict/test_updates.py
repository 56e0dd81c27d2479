"""Updates that are written otherwise: what counts are the parameters that they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.fresh_debugger import forget

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


class Separate(nn.Module):
    """Two layers of one input; ``body`` and ``head`` are other names than the fused model has."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.left(x)) * self.right(x))


class Joined(nn.Module):
    """The same, both layers in one product."""

    def __init__(self, other: Separate) -> None:
        super().__init__()
        self.both, self.out = nn.Linear(6, 10), nn.Linear(5, 3)
        with torch.no_grad():
            self.both.weight.copy_(torch.cat([other.left.weight, other.right.weight]))
            self.both.bias.copy_(torch.cat([other.left.bias, other.right.bias]))
        self.out.load_state_dict(other.head.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.both(x).chunk(2, -1)
        return self.out(torch.tanh(left) * right)


class Sorted(Separate):
    """The same as ``Separate``, with its parameters in another order."""

    def __init__(self, other: Separate) -> None:
        super().__init__()
        self.load_state_dict(other.state_dict())
        left, head = self.left, self.head
        del self.left, self.head
        self.left, self.head = left, head


@torch.no_grad()
def update(model: nn.Module, buffers: dict[str, torch.Tensor], rate: float) -> None:
    """One step of SGD with momentum, by hand."""
    for name, one in model.named_parameters():
        buffers[name].mul_(0.9).add_(one.grad)
        one.sub_(buffers[name] * rate)


def train(
    folder: Path, *, joined: bool, by_hand: bool, rate: float = 0.1, metric: float = 1.0, reads: bool = False
) -> str:
    """Two steps of SGD with momentum, by an optimizer or by hand, each with a measure of the data behind it."""
    forget()
    torch.manual_seed(0)
    model: nn.Module = Separate()
    model = Joined(model) if joined else model
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, foreach=False)
    buffers = {name: torch.zeros_like(one) for name, one in model.named_parameters()}
    torch.manual_seed(1)
    x, goal = torch.randn(2, 7, 6), torch.randint(0, 3, (2, 7))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(2):
        debugger.start(model)
        model.zero_grad()
        F.cross_entropy(model(x[step]), goal[step]).backward()
        if by_hand:
            update(model, buffers, rate)
        else:
            optimizer.step()
        spread = torch.tanh(x[step] * metric).std()
        if reads:
            spread.item()
        debugger.stop()
        debugger.step()
    forget()
    return str(folder)


@pytest.mark.parametrize(("joined", "by_hand"), [(True, False), (False, True), (True, True)])
def test_an_update_that_is_written_otherwise_is_the_same(tmp_path: Path, joined: bool, by_hand: bool) -> None:
    golden = train(tmp_path / "golden", joined=False, by_hand=False)
    target = train(tmp_path / "target", joined=joined, by_hand=by_hand)
    assert msprobe.compare(target, golden).summary.verdict == "same"
    assert msprobe.compare(golden, target).summary.verdict == "same"


def test_another_rate_of_an_update_by_hand_is_not(tmp_path: Path) -> None:
    golden = train(tmp_path / "golden", joined=False, by_hand=False)
    summary = msprobe.compare(train(tmp_path / "target", joined=True, by_hand=True, rate=0.11), golden).summary
    assert summary.verdict == "diverged"
    assert summary.first_divergence.step == 0


@pytest.mark.parametrize("joined", [False, True], ids=["same code", "other code"])
def test_what_is_calculated_behind_an_update_is_judged_by_itself(tmp_path: Path, joined: bool) -> None:
    """In other code, which has calls of its own, what the program reads says that they have a consequence."""
    golden = train(tmp_path / "golden", joined=False, by_hand=False, reads=joined)
    target = train(tmp_path / "target", joined=joined, by_hand=True, metric=1.5, reads=joined)
    assert msprobe.compare(target, golden).summary.verdict == "diverged"


@torch.no_grad()
def update_softly(model: nn.Module, buffers: dict[str, torch.Tensor], rate: float) -> None:
    """One step along the softened sign of a momentum, which moves afterwards."""
    for name, one in model.named_parameters():
        step = 0.9 * buffers[name] + 0.1 * one.grad
        one.add_(torch.tanh(step / 1e-2), alpha=-rate)
        buffers[name].mul_(0.98).add_(one.grad, alpha=0.02)


def train_softly(folder: Path, *, in_order: bool, rate: float = 0.01) -> str:
    forget()
    torch.manual_seed(0)
    model: nn.Module = Separate()
    model = model if in_order else Sorted(model)
    torch.manual_seed(1)
    buffers = {name: torch.zeros_like(one) for name, one in model.named_parameters()}
    x, goal = torch.randn(2, 7, 6), torch.randint(0, 3, (2, 7))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(2):
        debugger.start(model)
        model.zero_grad()
        scores = model(x[step])
        if in_order:
            F.cross_entropy(scores, goal[step]).backward()
        else:
            (-F.log_softmax(scores, -1).gather(1, goal[step][:, None]).mean()).backward()
        update_softly(model, buffers, rate)
        debugger.stop()
        debugger.step()
    forget()
    return str(folder)


@pytest.mark.parametrize(("rate", "verdict"), [(0.01, "same"), (0.011, "diverged")])
def test_an_update_by_hand_may_come_in_another_order(tmp_path: Path, rate: float, verdict: str) -> None:
    golden = train_softly(tmp_path / "golden", in_order=True)
    target = train_softly(tmp_path / "target", in_order=False, rate=rate)
    assert msprobe.compare(target, golden).summary.verdict == verdict


def limited_sums(passes: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    """Return the sum of the gradients of all passes, each of which is limited in its norm."""
    sums = [torch.zeros_like(grad) for grad in passes[0]]
    for grads in passes:
        norm = torch.stack([grad.square().sum() for grad in grads]).sum().sqrt()
        for total, grad in zip(sums, grads, strict=True):
            total += grad * torch.clamp(0.1 / (norm + 1e-6), max=1.0)
    return sums


def limited_flat(passes: list[list[torch.Tensor]], factor: float) -> list[torch.Tensor]:
    """Return the same, summed up in one vector."""
    whole = torch.zeros(sum(grad.numel() for grad in passes[0]))
    for grads in passes:
        flat = torch.cat([grad.flatten() for grad in grads])
        whole.add_(flat * torch.clamp(factor * 0.1 / (flat.norm() + 1e-6), max=1.0))
    parts = whole.split([grad.numel() for grad in passes[0]])
    return [part.view_as(grad).clone() for part, grad in zip(parts, passes[0], strict=True)]


def accumulate(folder: Path, *, flat: bool, factor: float = 1.0) -> str:
    """Two steps of Adam on gradients that are limited in each of two passes."""
    forget()
    torch.manual_seed(0)
    model = Separate()
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-2, eps=1e-2, foreach=False)
    x, goal = torch.randn(2, 2, 7, 6), torch.randint(0, 3, (2, 2, 7))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(2):
        debugger.start(model)
        passes = [
            list(torch.autograd.grad(F.cross_entropy(model(x[step, part]), goal[step, part]), parameters))
            for part in range(2)
        ]
        sums = limited_flat(passes, factor) if flat else limited_sums(passes)
        for parameter, total in zip(parameters, sums, strict=True):
            parameter.grad = total
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()
    return str(folder)


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1.1, "diverged")])
def test_what_an_optimizer_gets_shows_what_is_made_of_gradients(tmp_path: Path, factor: float, verdict: str) -> None:
    golden = accumulate(tmp_path / "golden", flat=False)
    target = accumulate(tmp_path / "target", flat=True, factor=factor)
    assert msprobe.compare(target, golden).summary.verdict == verdict
