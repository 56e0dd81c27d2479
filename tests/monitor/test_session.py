"""The session over real trainings of PyTorch: values, steps, and a training that stays as it was."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.monitor.watch import TorchWatch  # noqa: E402
from msprobe.monitor.plan import MonitorPlan, StepWindow  # noqa: E402
from msprobe.monitor.rows import Row  # noqa: E402
from msprobe.monitor.session import MonitorSession  # noqa: E402
from msprobe.monitor.sources import (  # noqa: E402
    ACTIVATION,
    ACTIVATION_GRADIENT,
    FIRST_MOMENT,
    GRADIENT_MICRO,
    GRADIENT_REDUCED,
    GRADIENT_UNREDUCED,
    PARAMETER_AFTER,
    PARAMETER_BEFORE,
    RATIO,
    UPDATE,
    Source,
)
from tests.monitor.kept_rows import Kept  # noqa: E402

pytestmark = pytest.mark.torch

ALL = ("min", "max", "mean", "norm", "zeros", "nans", "infs")


def make_model() -> Any:
    torch.manual_seed(3)
    layers = torch.nn.Linear(4, 6), torch.nn.ReLU(inplace=True), torch.nn.Linear(6, 2)
    return torch.nn.Sequential(*layers)


def train(
    sources: Sequence[Source], steps: int = 3, micro_steps: int = 1, **plan: Any
) -> tuple[Kept, Any, list[list[Any]]]:
    """Train a model; return what was kept, the model, and copies of all gradients of each step."""
    model, kept = make_model(), Kept()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    chosen = MonitorPlan(dict.fromkeys(sources, ALL), micro_steps=micro_steps, **plan)
    session = MonitorSession(chosen, TorchWatch(), [kept])
    session.attach([model], optimizer)
    gradients = []
    for step in range(steps):
        for micro in range(micro_steps):
            torch.manual_seed(100 * step + micro)
            model(torch.randn(5, 4)).pow(2).mean().backward()
        gradients.append([one.grad.clone() for one in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
    session.detach()
    return kept, model, gradients


def test_gradients_are_those_of_the_optimizer() -> None:
    kept, _, gradients = train([GRADIENT_REDUCED, GRADIENT_UNREDUCED])
    for step, (weight, *_) in enumerate(gradients):
        for source in (GRADIENT_REDUCED, GRADIENT_UNREDUCED):
            assert kept.values(step, source, "0.weight", "norm") == [pytest.approx(float(weight.double().norm()))]
            assert kept.values(step, source, "0.weight", "max") == [float(weight.max())]


def test_each_micro_step_has_a_row() -> None:
    kept, _, _ = train([GRADIENT_MICRO, GRADIENT_REDUCED], micro_steps=3)
    norms = kept.values(1, GRADIENT_MICRO, "2.bias", "norm")
    assert len(norms) == 3
    assert norms[-1] == kept.values(1, GRADIENT_REDUCED, "2.bias", "norm")[0]
    assert norms[0] != norms[-1]


def test_parameters_change_between_their_rows() -> None:
    kept, model, _ = train([PARAMETER_BEFORE, PARAMETER_AFTER])
    assert kept.values(0, PARAMETER_AFTER, "0.weight", "norm") == kept.values(1, PARAMETER_BEFORE, "0.weight", "norm")
    last = float(model[0].weight.detach().double().norm())
    assert kept.values(2, PARAMETER_AFTER, "0.weight", "norm") == [pytest.approx(last)]


def test_modules_that_work_in_place_have_their_gradients() -> None:
    kept, _, _ = train([ACTIVATION, ACTIVATION_GRADIENT])
    assert kept.values(0, ACTIVATION, "1.output", "min") == [0.0]
    zeros = kept.values(0, ACTIVATION_GRADIENT, "1.input", "zeros")
    assert 0 < zeros[0] < 1  # what ReLU has cut
    assert kept.values(0, ACTIVATION_GRADIENT, "0.input", "norm") == [None]  # data needs no gradient


def test_moments_and_updates_of_adam() -> None:
    kept, _, gradients = train([FIRST_MOMENT, UPDATE, RATIO])
    assert kept.values(0, FIRST_MOMENT, "0.weight", "norm") == []  # there is none before the first step
    expected = 0.1 * float(gradients[0][0].double().norm())
    assert kept.values(1, FIRST_MOMENT, "0.weight", "norm") == [pytest.approx(expected, rel=1e-5)]
    update, ratio = (kept.values(1, source, "2.bias", "max")[0] for source in (UPDATE, RATIO))
    assert update == pytest.approx(0.1 * ratio, rel=1e-5)
    assert ratio == pytest.approx(1.0, rel=1e-3) or ratio == pytest.approx(-1.0, rel=1e-3)


def test_a_window_of_steps_ends_the_watch() -> None:
    kept, model, _ = train([GRADIENT_REDUCED, ACTIVATION], steps=6, window=StepWindow(1, 2, 2))
    assert sorted(kept.steps) == [1, 3]
    assert kept.closed
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_other_ranks_are_not_watched() -> None:
    kept, _, _ = train([GRADIENT_REDUCED], ranks=frozenset({5}))
    assert kept.steps == {}


def test_the_training_stays_as_it_was() -> None:
    every = [ACTIVATION, ACTIVATION_GRADIENT, GRADIENT_MICRO, GRADIENT_REDUCED, PARAMETER_BEFORE, PARAMETER_AFTER]
    _, watched, gradients = train([*every, FIRST_MOMENT, UPDATE])
    _, plain, expected = train([])
    assert all(torch.equal(a, b) for a, b in zip(watched.parameters(), plain.parameters(), strict=True))
    pairs = zip(itertools.chain(*gradients), itertools.chain(*expected), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_an_error_of_a_sink_does_not_reach_the_training(caplog: pytest.LogCaptureFixture) -> None:
    class Full(Kept):
        def write(self, step: int, rows: Sequence[Row]) -> None:
            raise OSError(28, "No space left on device")

    model, kept = make_model(), Kept()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = MonitorSession(MonitorPlan({GRADIENT_REDUCED: ALL}), TorchWatch(), [Full(), kept])
    session.attach([model], optimizer)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    session.detach()
    assert list(kept.steps) == [0]
    assert caplog.text.count("No space left") == 1
