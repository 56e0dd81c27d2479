"""What is said of each parameter, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe.checkpoints.result import CheckpointComparison, Parameter
from msprobe.checkpoints.similarity import similarity
from msprobe.core.store.tensor_reader import LazyTensor


def lazy(values: Any) -> LazyTensor:
    array = np.asarray(values)
    return LazyTensor(array.shape, array.dtype.name, lambda: array)


def parameter(name: str, first: Any, second: Any) -> Parameter:
    sides = [None if values is None else lazy(values) for values in (first, second)]
    if sides[0] is None or sides[1] is None:
        return Parameter(name, *sides)
    return Parameter(name, *sides, similarity(sides[0], sides[1]))


ONES = np.ones(4, np.float32)
NEXT = np.nextafter(ONES, np.float32(2))
MIXED = np.arange(4, dtype=np.float32)


def comparison() -> CheckpointComparison:
    found = [
        parameter("equal", ONES, ONES.copy()),
        parameter("one step", ONES, NEXT),
        parameter("near", MIXED, MIXED + 1),
        parameter("permuted", MIXED, MIXED[::-1].copy()),
        parameter("shape", ONES, ONES[:3]),
        parameter("gone", ONES, None),
        parameter("new", None, ONES),
        parameter("nan", ONES, ONES * np.nan),
    ]
    return CheckpointComparison(found, ("a", "b"), ([], ["x"]))


def test_kinds_and_the_order_from_the_worst() -> None:
    found = comparison()
    assert [one.kind for one in found.parameters] == [
        "equal", "rounding", "different", "different", "shape", "first_only", "second_only", "problem",
    ]  # fmt: skip
    expected = ["nan", "gone", "new", "shape", "permuted", "near", "one step"]
    assert [one.name for one in found.worst_first()] == expected
    assert [one["name"] for one in found.summary()["parameters"]] == expected
    lines = [line.split(":")[0].strip() for line in found.lines()]
    assert lines == ["First", "Second", "Verdict", *expected]
    assert not found.same


def test_one_unit_in_the_last_place_is_told_and_no_pass() -> None:
    found = CheckpointComparison([parameter("w", ONES, NEXT)], ("a", "b"), ([], []))
    lines = list(found.lines())
    assert lines[2] == "Verdict: DIVERGED (1 parameters: 1 within one unit in the last place)"
    assert lines[3].endswith("at most 1 unit in the last place")
    assert found.summary()["parameters"][0]["ulps"] == 1


@pytest.mark.parametrize("second", ["float16", "float64"])
def test_a_cast_is_told(second: str) -> None:
    values = np.random.default_rng(0).normal(size=100)
    found = parameter("w", values.astype(np.float32), values.astype(np.float32).astype(second))
    if second == "float64":
        assert found.kind == "equal"
    else:
        assert found.kind == "rounding" and found.line().endswith("equal after rounding to the coarser type")


def test_integers_that_differ_by_one_are_different() -> None:
    assert parameter("n", np.array([1, 2]), np.array([1, 3])).kind == "different"
    assert "complex and real" in parameter("n", np.array([1j]), np.array([1.0])).similarity.problem
