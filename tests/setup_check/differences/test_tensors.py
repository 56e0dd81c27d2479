"""Inputs and weights: equal, permuted, one unit in the last place, missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.tensors.numpy_ops import statistics
from msprobe.core.tensors.projection import projection
from msprobe.setup_check.collection.content_hash import content_hash, element_sum
from msprobe.setup_check.differences.tensors import compare_tensors
from msprobe.setup_check.document import StepTensors, TensorFacts


def facts(values: np.ndarray) -> TensorFacts:  # type: ignore[type-arg]
    """Return the facts of an array, as an adapter makes them."""
    found = statistics(values, precision="high")
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return TensorFacts(
        dtype=str(values.dtype),
        shape=list(values.shape),
        max=found.max,
        min=found.min,
        mean=found.mean,
        norm=found.norm,
        projection=projection(values),
        content=content_hash(data, str(values.dtype), values.shape),
        elements=element_sum(data, values.itemsize),
    )


def judged(first: TensorFacts | None, second: TensorFacts | None) -> tuple[object, str, str]:
    """Return ``equal``, the level and the reason of one weight."""
    sides = [[StepTensors(step=0, rank=0, tensors={"w": one} if one else {})] for one in (first, second)]
    (row,) = compare_tensors("weights", sides[0], sides[1]).rows
    return row["equal"], row["level"], row["reason"]


VALUES = np.random.default_rng(1).normal(size=(64, 8)).astype(np.float32)


def test_equal() -> None:
    assert judged(facts(VALUES), facts(VALUES.copy())) == (True, "pass", "")


def test_permuted() -> None:
    assert judged(facts(VALUES), facts(VALUES[::-1])) == (False, "error", "the same elements in another order")


@pytest.mark.parametrize("towards", [9, -9, 0])
def test_one_unit_in_the_last_place(towards: float) -> None:
    moved = np.nextafter(VALUES, np.float32(towards))
    equal, level, reason = judged(facts(VALUES), facts(moved))
    assert (equal, level) == (False, "warning")
    assert "one unit in the last place" in reason


def test_one_element_of_many() -> None:
    moved = VALUES.copy()
    moved[3, 3] = np.nextafter(moved[3, 3], np.float32(9))
    assert judged(facts(VALUES), facts(moved))[:2] == (False, "warning")
    moved[3, 3] *= 1.01
    assert judged(facts(VALUES), facts(moved))[:2] == (False, "error")


@pytest.mark.parametrize(
    ("step", "reason"), [(0, "the runs begin with other weights"), (1, "weights have parted by the end of step 0")]
)
def test_the_step_in_which_weights_part(step: int, reason: str) -> None:
    sides = [[StepTensors(step=step, rank=0, tensors={"w": facts(VALUES * scale)})] for scale in (1, 2)]
    assert [row["reason"] for row in compare_tensors("weights", *sides).rows] == [reason]


def test_shape_and_dtype() -> None:
    assert judged(facts(VALUES), facts(VALUES.T)) == (False, "error", "shape [64, 8] against [8, 64]")
    assert judged(facts(VALUES), facts(VALUES.astype(np.float64)))[2] == "float32 against float64"


def test_a_missing_weight_is_no_pass() -> None:
    assert judged(facts(VALUES), None)[:2] == ("only bench have", "error")
    assert judged(None, facts(VALUES))[:2] == ("only cmp have", "error")
    section = compare_tensors("weights", [], [StepTensors(step=0, rank=0, tensors={"w": facts(VALUES)})])
    assert (section.level, section.note) == ("warning", "not compared: the first set-up has no weights")


def test_an_input_of_one_side() -> None:
    sides = [
        [StepTensors(step=0, rank=0, tensors={"args.0": facts(VALUES), **tensors}, others=others)]
        for tensors, others in (
            ({"mask": facts(VALUES)}, ["scale", "both", "mixed"]),
            ({"mixed": facts(VALUES)}, ["both"]),
        )
    ]
    rows = {row["tag"]: (row["equal"], row["level"], row["reason"]) for row in compare_tensors("dataset", *sides).rows}
    assert rows == {
        "args.0": (True, "pass", ""),
        "mask": (False, "error", "only the benchmark gives the model this input"),
        "mixed": (False, "error", "a tensor on one side, no tensor on the other"),
        "scale": (False, "error", "only the benchmark gives the model this input"),
    }


def test_what_could_not_be_read_is_no_pass() -> None:
    assert judged(TensorFacts(), TensorFacts())[:2] == (False, "warning")
    assert judged(TensorFacts(shape=[64, 8]), facts(VALUES))[1:] == (
        "warning",
        "not measured: the tensor could not be read, so it is not compared",
    )


@given(st.lists(st.floats(width=32), min_size=1, max_size=40), st.randoms())
def test_only_equal_bits_are_equal(values: list[float], generator: object) -> None:
    array = np.array(values, np.float32)
    shuffled = array.copy()
    generator.shuffle(shuffled)  # type: ignore[attr-defined]
    same = array.tobytes() == shuffled.tobytes()
    equal, level, _ = judged(facts(array), facts(shuffled))
    assert (equal is True) == same
    assert (level == "pass") == same


def test_nan_is_equal_to_nan_only() -> None:
    with_nan = VALUES.copy()
    with_nan[0, 0] = np.nan
    assert judged(facts(with_nan), facts(with_nan.copy()))[1] == "pass"
    assert judged(facts(VALUES), facts(with_nan))[1] == "error"
