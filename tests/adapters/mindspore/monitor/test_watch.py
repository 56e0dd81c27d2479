"""The session over trainings of MindSpore: steps, a training that stays as it was, and what is refused."""

from __future__ import annotations

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn

from msprobe.adapters.mindspore.monitor.watch import MindSporeWatch
from msprobe.core.errors import MsprobeException
from msprobe.monitor.plan import MonitorPlan, StepWindow
from msprobe.monitor.session import MonitorSession
from msprobe.monitor.sources import (
    ACTIVATION,
    GRADIENT_REDUCED,
)
from tests.adapters.mindspore.monitor.trainings import ALL, EVERY, Net, train
from tests.monitor.kept_rows import Kept


def test_the_training_stays_as_it_was_and_nothing_is_wrapped_afterwards() -> None:
    call, optimizers = nn.Cell.__call__, dict(vars(nn.Optimizer))
    _, watched, gradients = train(EVERY, micro_steps=2)
    assert nn.Cell.__call__ is call and dict(vars(nn.Optimizer)) == optimizers
    assert "__call__" not in vars(nn.Adam)
    _, plain, expected = train([], micro_steps=2)
    pairs = zip(watched.get_parameters(), plain.get_parameters(), strict=True)
    assert all(np.array_equal(one.asnumpy(), other.asnumpy()) for one, other in pairs)
    for step, others in zip(gradients, expected, strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(step, others, strict=True))


def test_a_cell_of_a_training_step_and_several_optimizers() -> None:
    net, kept = Net(), Kept()
    optimizers = [nn.SGD(net.fc1.trainable_params(), 0.1), nn.Momentum(net.fc2.trainable_params(), 0.1, 0.9)]
    watch = MindSporeWatch()
    session = MonitorSession(MonitorPlan({GRADIENT_REDUCED: ALL, ACTIVATION: ALL}), watch, [kept])
    session.attach([net])
    loss = nn.SequentialCell(net, nn.ReLU())
    for optimizer in optimizers:
        nn.TrainOneStepCell(loss, optimizer).set_train()(Tensor(np.ones((2, 4), np.float32)))
    session.detach()
    gradients = [[row.name for row in rows if row.source is GRADIENT_REDUCED] for rows in kept.steps.values()]
    assert gradients == [["fc1.weight", "fc1.bias"], ["fc2.weight", "fc2.bias"]]
    assert kept.values(1, ACTIVATION, "fc1.output", "nans") == [0]


def test_a_window_of_steps_ends_the_watch() -> None:
    call = nn.Cell.__call__
    kept, _, _ = train([GRADIENT_REDUCED, ACTIVATION], steps=6, window=StepWindow(1, 2, 2))
    assert sorted(kept.steps) == [1, 3]
    assert kept.closed and nn.Cell.__call__ is call


def test_what_is_no_cell_and_static_graphs_are_refused() -> None:
    session = MonitorSession(MonitorPlan({ACTIVATION: ALL}), MindSporeWatch(), [])
    with pytest.raises(TypeError, match=r"mindspore\.nn\.Cell"):
        session.attach(["net"])
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(MsprobeException, match="GRAPH_MODE"):
            session.attach([Net()])
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
