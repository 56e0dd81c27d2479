"""A training of MindSpore in a dynamic graph, watched by a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.experimental import optim

from msprobe.adapters.mindspore.monitor.watch import MindSporeWatch
from msprobe.monitor.plan import MonitorPlan
from msprobe.monitor.session import MonitorSession
from msprobe.monitor.sources import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    DIRECTION,
    FIRST_MOMENT,
    GRADIENT_MICRO,
    GRADIENT_REDUCED,
    PARAMETER_AFTER,
    PARAMETER_BEFORE,
    RATIO,
    SECOND_MOMENT,
    UPDATE,
    Source,
)
from tests.monitor.kept_rows import Kept

ALL = ("min", "max", "mean", "norm", "zeros", "nans", "infs")
EVERY = (
    *(ACTIVATION, ACTIVATION_GRADIENT, GRADIENT_MICRO, GRADIENT_REDUCED, PARAMETER_BEFORE, PARAMETER_AFTER),
    *(FIRST_MOMENT, SECOND_MOMENT, UPDATE, RATIO, DIRECTION),
)
KINDS: dict[str, Callable[[Any], Any]] = {
    "Adam": lambda parameters: nn.Adam(parameters, 0.1),
    "AdamWeightDecay": lambda parameters: nn.AdamWeightDecay(parameters, 0.1, weight_decay=0.0),
    "experimental": lambda parameters: optim.AdamW(parameters, lr=0.1, weight_decay=0.0),
    "groups": lambda parameters: nn.Adam([{"params": parameters[2:], "lr": 0.05}, {"params": parameters[:2]}], 0.1),
}


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        draw = np.random.default_rng(3).normal
        self.fc1, self.act, self.fc2 = nn.Dense(4, 6), nn.ReLU(), nn.Dense(6, 2)
        for one in self.trainable_params():
            one.set_data(Tensor(draw(size=one.shape).astype(np.float32)))

    def construct(self, x: Any, scale: Any = None) -> Any:
        return self.fc2(self.act(self.fc1(x))) * (1 if scale is None else scale)


def train(
    sources: Sequence[Source], steps: int = 3, micro_steps: int = 1, kind: str = "Adam", **plan: Any
) -> tuple[Kept, Net, list[list[Any]]]:
    """Train a net; return what was kept, the net, and the gradients of each step that the optimizer got."""
    net, kept = Net(), Kept()
    optimizer = KINDS[kind](net.trainable_params())
    session = MonitorSession(
        MonitorPlan(dict.fromkeys(sources, ALL), micro_steps=micro_steps, **plan), MindSporeWatch(), [kept]
    )
    session.attach([net], optimizer)
    compute = mindspore.value_and_grad(lambda x: ops.square(net(x)).mean(), None, optimizer.parameters)
    draw, gradients = np.random.default_rng(1).normal, []
    for _ in range(steps):
        parts = [compute(Tensor(draw(size=(5, 4)).astype(np.float32)))[1] for _ in range(micro_steps)]
        whole = [Tensor(sum(part[place].asnumpy() for part in parts)) for place in range(len(parts[0]))]
        gradients.append([one.asnumpy() for one in whole])
        optimizer(tuple(whole))
    session.detach()
    return kept, net, gradients


def norm(array: Any) -> Any:
    return pytest.approx(norm_of(array), rel=1e-5)


def norm_of(array: Any) -> float:
    return float(np.linalg.norm(array.astype(np.float64)))
