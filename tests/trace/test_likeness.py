"""Tests of how alike two recorded tensors are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.trace.likeness import UNMOVED, distance, distances, same_checksums, same_values

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def tensor(**other: Any) -> dict[str, Any]:
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        "Max": 2.0,
        "Min": -1.0,
        "Mean": 0.5,
        "Norm": 3.0,
        **other,
    }


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_tensor_is_like_itself(largest: float, smallest: float, mean: float, norm: float) -> None:
    one = tensor(Max=largest, Min=smallest, Mean=mean, Norm=norm)
    assert distance(one, dict(one)) == 0.0


@given(NUMBERS, NUMBERS)
def test_the_distance_has_no_direction_and_is_never_nan(one: float, two: float) -> None:
    left, right = tensor(Mean=one), tensor(Mean=two)
    assert distance(left, right) == distance(right, left)
    assert not math.isnan(distance(left, right))


@given(st.lists(st.tuples(*[NUMBERS | st.sampled_from([0.0, 1.0, -2.0])] * 8), min_size=1, max_size=4))
def test_many_distances_at_once_are_the_single_ones(pairs: list[tuple[float, ...]]) -> None:
    numbers = np.array(pairs).reshape(-1, 2, 4)
    single = [distance(*(dict(zip(STATISTIC_NAMES, side, strict=True)) for side in pair)) for pair in numbers.tolist()]
    assert distances(numbers[:, 0], numbers[:, 1]).tolist() == single


@pytest.mark.parametrize(("name", "value", "expected"), [("Max", 1.0, 0.5), ("Mean", 0.3, 0.1), ("Norm", 1.5, 0.5)])
def test_differences_are_relative_to_the_largest_element_or_the_larger_norm(
    name: str, value: float, expected: float
) -> None:
    assert distance(tensor(), tensor(**{name: value})) == pytest.approx(expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_number_on_one_side_only_is_infinitely_far(value: float | None) -> None:
    assert distance(tensor(), tensor(Norm=value)) == math.inf


def test_only_the_named_statistics_are_read() -> None:
    assert distance(tensor(), tensor(Mean=0.1), UNMOVED) == 0.0


@pytest.mark.parametrize(
    ("left", "right", "expected"), [({}, {}, None), ({"md5": "a"}, {}, False), ({"md5": None}, {"md5": None}, False)]
)
def test_a_checksum_that_is_missing_is_not_the_same(left: Any, right: Any, expected: bool | None) -> None:
    assert same_checksums(tensor(**left), tensor(**right)) is expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"shape": [2, 2]}, True),
        ({"shape": [5]}, False),
        ({"Max": 2.0001}, True),
        ({"Max": 2.01}, False),
        ({"Max": 2.01, "dtype": "torch.bfloat16"}, True),
        ({"md5": "a"}, False),
    ],
)
def test_the_same_values_up_to_rounding(other: dict[str, Any], expected: bool) -> None:
    assert same_values(tensor(), tensor(**other)) is expected
