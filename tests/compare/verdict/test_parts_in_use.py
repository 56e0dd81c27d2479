"""What leaves a step of two programs, and what only seems to: each program in two right forms and in a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch

OTHER, WRONG = "another form", "wrong"
"""The golden form is ""."""


class Body(nn.Module):
    """Mixes what a mask leaves; rows of padding, which nobody looks at, get something or nothing."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.linear, self.form = nn.Linear(8, 8), form

    def forward(self, x: Any, real: Any) -> Any:
        scores = x @ x.transpose(1, 2)
        if self.form:
            shares = scores.masked_fill(~real[:, None], float("-inf")).softmax(-1) * real[:, :, None]
        else:
            shares = (scores + (~real[:, None]) * -1e4).softmax(-1)
        return self.linear(shares @ x * (1.01 if self.form == WRONG else 1.0))


class Scorer(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(20, 8), Body(form), nn.Linear(8, 20)

    def forward(self, tokens: Any, real: Any) -> Any:
        return self.head(self.body(self.embed(tokens), real)[:, -1:])


def padded(form: str, debugger: Any) -> None:
    """The last token of sequences that are padded on the left."""
    model = Scorer(form).eval()
    real = torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]]).bool()
    with torch.no_grad(), debugger.collect(model=model):
        model(torch.arange(10).view(2, 5) * real, real)


class Sorted(nn.Module):
    """A recurrence whose last states nobody gets, over sequences in their order or the longest first."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.lstm, self.out, self.form = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 1), form

    def forward(self, x: Any, lengths: Any) -> Any:
        order = lengths.argsort(descending=True) if self.form else torch.arange(len(lengths))
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order], True, enforce_sorted=bool(self.form))
        rows, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(rows.sum(dim=1) * (1.01 if self.form == WRONG else 1.0))[order.argsort()]


def packed(form: str, debugger: Any) -> None:
    model, x = Sorted(form), torch.randn(3, 5, 4)
    with debugger.collect(model=model):
        model(x, torch.tensor([2, 5, 3])).square().mean().backward()


def in_batches(form: str, debugger: Any) -> None:
    """Two passes through a norm without running statistics, or both together."""
    model, x = nn.Sequential(nn.Conv2d(2, 3, 3)), torch.randn(4, 2, 6, 6)
    with debugger.collect(model=model):
        if form:
            rows = F.relu(F.instance_norm(model(x)))
            F.mse_loss(rows, torch.zeros_like(rows)).mul(1.01 if form == WRONG else 1.0).backward()
        else:
            parts = [F.instance_norm(model(part)).clamp(min=0.0) for part in x.split(2)]
            (sum((part * part).sum() for part in parts) / sum(part.numel() for part in parts)).backward()


class Cell(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.linear, self.form = nn.Linear(8, 8), form

    def forward(self, x: Any, state: Any) -> Any:
        return torch.tanh(self.linear(x) + state * (1.01 if self.form == WRONG else 1.0))


class Stream(nn.Module):
    """Reads a prompt, and then token by token; or everything, with a product in the place of the last layer."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.embed, self.cell, self.form = nn.Embedding(20, 8), Cell(form), form
        self.head = nn.Linear(8, 20, bias=False)
        self.state = torch.zeros(1, 8)

    def forward(self, tokens: Any) -> Any:
        states = []
        for x in self.embed(tokens).unbind(1):
            self.state = self.cell(x, self.state)
            states.append(self.state)
        rows = torch.stack(states, 1)
        return rows @ self.head.weight.T if self.form else self.head(rows)


def streamed(form: str, debugger: Any) -> None:
    model, tokens = Stream(form).eval(), torch.tensor([[3, 1, 4, 1, 5, 9]])
    with torch.no_grad(), debugger.collect(model=model):
        for part in [tokens] if form else [tokens[:, :3], *tokens[:, 3:].split(1, dim=1)]:
            model(part)


def averaged(form: str, debugger: Any) -> None:
    """An average of the weights as new tensors, beside a momentum in place; or the other way round."""
    model = nn.Linear(4, 4, bias=False)
    average, momentum = torch.randn(2, 4, 4)
    for _ in range(2):
        debugger.start(model)
        model(torch.arange(8.0).view(2, 4)).square().mean().backward()
        with torch.no_grad():
            weight, gradient = model.weight, model.weight.grad
            if form:
                momentum.mul_(0.9).add_(gradient)
                weight.sub_(0.01 * momentum)
                average = 0.9 * average + (0.11 if form == WRONG else 0.1) * weight
            else:
                momentum = 0.9 * momentum + gradient
                weight.sub_(0.01 * momentum)
                average.mul_(0.9).add_(0.1 * weight)
        model.weight.grad = None
        debugger.stop()
        debugger.step()


def clipped(form: str, debugger: Any) -> None:
    """One program reads the norm that it clips by, the other one clips without, and reads a sum of all losses."""
    model, total = nn.Linear(4, 1), torch.zeros(())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(2):
        debugger.start(model)
        loss = model(torch.arange(8.0).view(2, 4)).square().mean()
        loss.backward()
        parameters = list(model.parameters())
        if form:
            norm = torch.stack([one.grad.norm() for one in parameters]).norm().item()
            for one in parameters:
                one.grad.mul_(min(1.0, (1.01 if form == WRONG else 1.0) / (norm + 1e-6)))
        else:
            nn.utils.clip_grad_norm_(parameters, 1.0)
            total += loss.detach()
            _ = total.item() if step else None
        loss.item()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()


def fast_weights(form: str, debugger: Any) -> None:
    """Inner steps of weights whose bias has no gradient but rounding; a model or functions get them."""
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten())
    model = nn.ModuleDict({"net": model.append(nn.Linear(48, 2))})
    x, y = torch.randn(4, 1, 6, 6), torch.tensor([0, 1, 1, 0])

    def scores(weights: dict[str, Any]) -> Any:
        if form:
            return torch.func.functional_call(model["net"], weights, (x,))
        rows = F.conv2d(x, weights["0.weight"], weights["0.bias"])
        rows = F.batch_norm(rows, None, None, weights["1.weight"], weights["1.bias"], training=True)
        return F.linear(rows.flatten(1), weights["3.weight"], weights["3.bias"])

    fast = {name: one.detach().clone().requires_grad_() for name, one in model["net"].named_parameters()}
    with debugger.collect(model=model):
        for _ in range(3):
            gradients = torch.autograd.grad(F.cross_entropy(scores(fast), y), list(fast.values()))
            rate = 0.11 if form == WRONG else 0.1
            moved = [one - rate * each for one, each in zip(fast.values(), gradients, strict=True)]
            fast = dict(zip(fast, (one.detach().requires_grad_() for one in moved), strict=True))
        F.cross_entropy(scores(fast), y).backward()


def in_two_precisions(form: str, debugger: Any) -> None:
    """A model in bfloat16, or one in float32 whose products are in bfloat16 alone."""
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).eval()
    x = torch.randn(8, 16)
    with torch.no_grad(), debugger.collect(model=model):
        if form:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                model(x * (1.3 if form == WRONG else 1.0))
        else:
            model.to(torch.bfloat16)(x.to(torch.bfloat16))


class Layers(nn.Module):
    """Layers and a masked mean, or products, norms and sums in other words under other names."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        for number in range(9):
            linear, norm = nn.Linear(8, 8), nn.LayerNorm(8)
            if form:
                for name, one in zip("abcd", (*linear.parameters(), *norm.parameters()), strict=True):
                    self.register_parameter(f"{name}{number}", one)
            else:
                self.add_module(f"linear{number}", linear)
                self.add_module(f"norm{number}", norm)

    def forward(self, x: Any, real: Any) -> Any:
        for number in range(9):
            if self.form:
                weight, bias, scale, shift = (getattr(self, f"{name}{number}") for name in "abcd")
                x = torch.einsum("bti,oi->bto", x, weight) + bias
                centred = x - x.mean(-1, keepdim=True)
                x = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5) * scale + shift
            else:
                x = getattr(self, f"norm{number}")(getattr(self, f"linear{number}")(x))
        if self.form:
            return torch.einsum("btc,bt->bc", x, real / real.sum(1, keepdim=True))
        mask = real[:, :, None].to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1)


def updated_by_hand(form: str, debugger: Any) -> None:
    """The same updates, by an optimizer or by hand, of a model in other words."""
    model = Layers(form)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, 0.05, momentum=0.9)
    momenta = [torch.zeros_like(one) for one in parameters]

    def by_hand(loss: Any) -> None:
        for parameter, momentum, gradient in zip(
            parameters, momenta, torch.autograd.grad(loss, parameters), strict=True
        ):
            momentum.mul_(0.8 if form == WRONG else 0.9).add_(gradient)
            with torch.no_grad():
                parameter.add_(momentum, alpha=-0.05)

    for step in range(3):
        debugger.start(model)
        real = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])
        rows = model(torch.linspace(-1, 1, 64).view(2, 4, 8).roll(step, 1), real)
        loss = (rows * rows * torch.arange(8)).mean()
        if form:
            by_hand(loss)
        else:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        debugger.stop()
        debugger.step()


Program = Callable[[str, Any], None]
PROGRAMS: dict[str, Program] = {
    one.__name__: one
    for one in (
        padded,
        packed,
        in_batches,
        streamed,
        averaged,
        clipped,
        fast_weights,
        in_two_precisions,
        updated_by_hand,
    )
}


def record(folder: Path, program: str, form: str) -> None:
    forget()
    torch.manual_seed(0)
    settings = {"dump_path": str(folder), "level": "mix", "task": "statistics"}
    PROGRAMS[program](form, PrecisionDebugger(settings))
    forget()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_another_form_is_the_same(recordings: Recordings, program: str, turned: bool) -> None:
    pair = recordings(record, program, OTHER), recordings(record, program, "")
    result = msprobe.compare(*(pair[::-1] if turned else pair))
    assert result.verdict == "same", result.summary.first_divergence


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_wrong_form_is_a_difference(recordings: Recordings, program: str) -> None:
    result = msprobe.compare(recordings(record, program, WRONG), recordings(record, program, ""))
    assert result.verdict == "diverged"
