"""Gradients, moments and steps of optimizers of MindSpore."""

from __future__ import annotations

from typing import Any

import pytest
from mindspore import nn

from msprobe.adapters.mindspore.monitor.watch import MindSporeWatch
from msprobe.monitor.plan import MonitorPlan
from msprobe.monitor.session import MonitorSession
from msprobe.monitor.sources import (
    DIRECTION,
    FIRST_MOMENT,
    GRADIENT_MICRO,
    GRADIENT_REDUCED,
    GRADIENT_UNREDUCED,
    PARAMETER_AFTER,
    PARAMETER_BEFORE,
    RATIO,
    SECOND_MOMENT,
    UPDATE,
)
from tests.adapters.mindspore.monitor.trainings import ALL, KINDS, Net, norm, norm_of, train
from tests.monitor.kept_rows import Kept


def test_gradients_are_those_of_the_optimizer() -> None:
    kept, _, gradients = train([GRADIENT_REDUCED, GRADIENT_UNREDUCED])
    for step, (weight, *_) in enumerate(gradients):
        for source in (GRADIENT_REDUCED, GRADIENT_UNREDUCED):
            assert kept.values(step, source, "fc1.weight", "norm") == [norm(weight)]
            assert kept.values(step, source, "fc1.weight", "max") == [float(weight.max())]


def test_each_micro_step_has_a_row_of_its_own_gradient() -> None:
    kept, _, gradients = train([GRADIENT_MICRO, GRADIENT_REDUCED], micro_steps=3)
    means = kept.values(1, GRADIENT_MICRO, "fc2.bias", "mean")
    assert len(means) == 3
    assert sum(means) == pytest.approx(gradients[1][3].mean(), rel=1e-5)
    assert kept.values(1, GRADIENT_REDUCED, "fc2.bias", "norm") == [norm(gradients[1][3])]


@pytest.mark.parametrize("kind", KINDS)
def test_moments_and_updates_are_those_of_each_kind_of_adam(kind: str) -> None:
    sources = (FIRST_MOMENT, SECOND_MOMENT, UPDATE, RATIO, DIRECTION, PARAMETER_BEFORE, PARAMETER_AFTER)
    kept, _, gradients = train(sources, kind=kind)
    place = 0 if kind == "groups" else 3  # optimizers with groups take the gradients in the order of the groups
    name = "fc2.weight" if kind == "groups" else "fc2.bias"
    assert kept.values(0, FIRST_MOMENT, name, "norm") == []  # the optimizer has made no step yet
    assert kept.values(0, DIRECTION, name, "mean") == [1.0]
    assert kept.values(1, FIRST_MOMENT, name, "norm") == [norm(0.1 * gradients[0][place])]
    assert kept.values(1, SECOND_MOMENT, name, "norm") == [
        pytest.approx(norm_of(0.001 * gradients[0][place] ** 2), rel=1e-4)
    ]
    for step in (1, 2):
        before, after = (kept.values(step - 1, one, name, "mean")[0] for one in (PARAMETER_BEFORE, PARAMETER_AFTER))
        (update,) = kept.values(step, UPDATE, name, "mean")
        assert update == pytest.approx(before - after, rel=1e-3, abs=1e-6)
        rate = 0.05 if kind == "groups" else 0.1
        assert kept.values(step, RATIO, name, "mean") == [pytest.approx(update / rate, rel=1e-5, abs=1e-6)]


def test_a_step_that_fails_is_no_step() -> None:
    class Broken(nn.SGD):
        def construct(self, gradients: Any) -> Any:
            raise ValueError("broken")

    net, kept = Net(), Kept()
    optimizer = Broken(net.trainable_params(), 0.1)
    session = MonitorSession(MonitorPlan({PARAMETER_AFTER: ALL}), MindSporeWatch(), [kept])
    session.attach([net], optimizer)
    with pytest.raises(ValueError, match="broken"):
        optimizer(())
    session.detach()
    assert kept.steps == {} and "__call__" not in vars(Broken)
