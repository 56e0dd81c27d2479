"""Calls of cells, and what of them is reported."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn

from msprobe.adapters.mindspore.monitor.watch import MindSporeWatch
from msprobe.monitor.plan import MonitorPlan
from msprobe.monitor.session import MonitorSession
from msprobe.monitor.sources import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
)
from tests.adapters.mindspore.monitor.trainings import ALL, Net, train
from tests.monitor.kept_rows import Kept


def test_cells_have_inputs_outputs_and_gradients() -> None:
    kept, _, _ = train([ACTIVATION, ACTIVATION_GRADIENT])
    assert {row.name for row in kept.steps[0] if row.source is ACTIVATION} == {
        f"{cell}.{kind}" for cell in ("", "fc1", "act", "fc2") for kind in ("input", "output")
    }
    assert kept.values(0, ACTIVATION, "act.output", "min") == [0.0]
    assert 0 < kept.values(0, ACTIVATION_GRADIENT, "act.input", "zeros")[0] < 1  # what ReLU has cut
    assert kept.values(0, ACTIVATION_GRADIENT, "fc1.input", "norm") == [None]  # data needs no gradient
    assert [row.micro_step for row in kept.steps[0] if row.name == "fc1.input"] == [0, 0]


def test_calls_without_a_gradient_are_not_reported_unless_the_net_is_set_to_training() -> None:
    net, kept = Net(), Kept()
    session = MonitorSession(MonitorPlan({ACTIVATION: ALL}, ends_by_hand=True), MindSporeWatch(), [kept])
    session.attach([net])
    x = Tensor(np.ones((2, 4), np.float32))
    net(x)
    session.end_step()
    mindspore.grad(net)(x, scale=Tensor(2.0))
    session.end_step()
    net.set_train()(x)
    session.end_step()
    session.detach()
    assert [len(kept.steps[step]) for step in range(3)] == [0, 9, 8]  # the net itself had two inputs


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.act = nn.Dense(4, 4), nn.ReLU()

    def construct(self, x: Any) -> Any:
        return self.act(self.inner(x))


def test_a_repeated_call_has_the_rows_of_a_call() -> None:
    kept = Kept(), Kept()
    mindspore.set_seed(2)
    net = nn.SequentialCell(nn.Dense(4, 4), Block(), nn.Dense(4, 2))
    compute = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    for one in kept:
        session = MonitorSession(
            MonitorPlan({ACTIVATION: ALL, ACTIVATION_GRADIENT: ALL}, ends_by_hand=True), MindSporeWatch(), [one]
        )
        session.attach([net])
        compute(Tensor(np.ones((2, 4), np.float32)))
        session.end_step()
        session.detach()
        net[1].recompute()
    rows = [[(row.source.name, row.label, row.micro_step, row.values) for row in one.steps[0]] for one in kept]
    assert rows[0] == rows[1] and len(rows[0]) == 24
