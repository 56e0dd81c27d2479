"""What waits for the backward pass of a call: few objects, or the garbage collector walks the program all the time."""

from __future__ import annotations

import gc
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from tests.adapters.mindspore.conftest import Bench

CALLS = 100


def objects_of_a_call() -> float:
    """Objects that the collector looks after, per call of a forward pass that is over and not yet differentiated."""
    found: list[int] = []

    def forward(x: Any) -> Any:
        before = len(gc.get_objects())
        for _ in range(CALLS):
            x = ops.sigmoid(x)
        found.append(len(gc.get_objects()) - before)
        return x.sum()

    gc.collect()
    gc.disable()
    try:
        mindspore.grad(forward)(Tensor(np.ones((2, 3), np.float32)))
    finally:
        gc.enable()
    return found[0] / CALLS


def test_few_objects_wait_for_a_gradient(bench: Bench) -> None:
    objects_of_a_call()
    plain = objects_of_a_call()
    debugger = bench.open()
    debugger.start()
    recorded = objects_of_a_call()
    debugger.stop()
    debugger.step()
    assert sum(name.endswith("backward") for name in bench.read().data) == CALLS + 1
    assert 0 < recorded - plain < 15
