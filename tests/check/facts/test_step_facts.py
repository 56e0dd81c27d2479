"""Facts travel as text, NaN and infinity included; tensors differ or not."""

from __future__ import annotations

import math

from msprobe.check.facts.step_facts import BatchTensor, TrainingCall, Update, differ, facts_of_text, facts_text
from tests.check.made_facts import collective, facts, module, parameter, tensor


def test_facts_are_the_same_after_a_journey() -> None:
    infinite = tensor(1.0, largest=math.inf)
    one = facts(
        parameters={"a": parameter(1.0, 2.0)},
        gradients={"a": [tensor(3.0)]},
        updates=[Update(0, "SGD", (0.1,), ("a", None), {"a": tensor(1.0)}, ("b",), (), 0, 1, ("frame",), {"a": 0.1})],
        training=[TrainingCall("clip_grad", 1, {"limit": 1.0, "norm": math.inf, "rates": [0.1]}, ())],
        modules=[module("fc", 1.0)],
        collectives=[collective("all_reduce", 1.0, 2.0)],
        batch=[BatchTensor("x", "fc", infinite, 0)],
        shared=[["a", "b"]],
    )
    again = facts_of_text(facts_text(one))
    assert vars(again) == vars(one)


def test_nan_survives() -> None:
    again = facts_of_text(facts_text(facts(gradients={"a": [tensor(1.0, mean=math.nan)]})))
    assert math.isnan(again.gradients["a"][0].mean)


def test_tensors_differ_beyond_rounding() -> None:
    one = tensor(1.0)
    assert not differ(one, one)
    assert not differ(one, one._replace(norm=1.0 + 1e-7))
    assert differ(one, one._replace(norm=1.001))
    assert differ(one, one._replace(order=math.nan))
    assert differ(one, one._replace(dtype="float16"))
    empty = tensor(math.nan)
    assert not differ(empty, empty)
