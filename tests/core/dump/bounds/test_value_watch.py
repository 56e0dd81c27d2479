"""NaN, infinities out of finite inputs and spikes are reasons; masks and normal trainings are none."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from msprobe.core.dump.bounds.value_watch import ValueWatch

BOTH = ("nan", "spike")


def tensor(value: float, norm: float = 1.0) -> dict[str, Any]:
    facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3]}
    return {**facts, "Max": value, "Min": -1.0, "Mean": 0.0, "Norm": norm}


def call(given: float = 1.0, result: float = 1.0, norm: float = 1.0) -> dict[str, Any]:
    return {"input_args": [tensor(given)], "input_kwargs": {}, "output": [tensor(result, norm)]}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (call(result=math.nan), "output.0 holds NaN"),
        (call(given=math.nan), "input_args.0 holds NaN"),
        (call(result=math.inf), "output.0 holds an infinity"),
        (call(given=-math.inf, result=math.inf), ""),
        ({"input_args": [{"type": "float", "value": -math.inf}], "output": [tensor(-math.inf)]}, ""),
        ({"input_args": [{"type": "float", "value": math.nan}], "output": [tensor(1.0)]}, ""),
        ({"input": [tensor(1.0)], "output": [tensor(math.nan)]}, "output.0 holds NaN"),
        ({"weight": [tensor(math.nan)]}, "weight.0 holds NaN"),
        ({"input_args": [{**tensor(1.0), "Max": None, "Min": None}], "output": [None]}, ""),
    ],
)
def test_values_that_are_not_finite(body: dict[str, Any], word: str) -> None:
    watch = ValueWatch(BOTH)
    watch.see_odd("Torch.add.0.forward", body)
    found = watch.conclude(0)
    assert [reason.kind for reason in found] == (["nan"] if word else [])
    assert not word or word in found[0].text
    assert watch.conclude(1) == []


def test_a_spike_is_named_and_a_normal_training_is_none() -> None:
    watch, noise = ValueWatch(BOTH), random.Random(0)
    found = []
    for step in range(60):
        for number in range(5):
            norm = 3.0 * 0.98**step * math.exp(noise.gauss(0.0, 0.2)) * (1000.0 if (step, number) == (40, 3) else 1.0)
            watch.see(f"Torch.add.{number}.forward", call(norm=norm))
        found += [(step, reason) for reason in watch.conclude(step)]
    assert [(step, reason.kind) for step, reason in found] == [(40, "spike")]
    assert "Torch.add.3.forward: Norm of output.0" in found[0][1].text


def test_a_kind_that_is_not_asked_for_is_not_looked_for() -> None:
    watch = ValueWatch(("exception",))
    watch.see_odd("Torch.add.0.forward", call(result=math.nan))
    assert watch.conclude(0) == []


def test_what_was_seen_of_a_step_can_be_forgotten() -> None:
    watch = ValueWatch(BOTH)
    watch.see_odd("Torch.add.0.forward", call(result=math.nan))
    watch.forget()
    assert watch.conclude(0) == []
