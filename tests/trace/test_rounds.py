"""Values of the rounds of a loop that are one tensor together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.trace.rounds import Rounds


def raw(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"shape": list(values.shape), "Norm": float(np.linalg.norm(values))}


@given(requests=st.integers(2, 4), steps=st.integers(1, 5), first=st.integers(0, 4), seed=st.integers(0, 99))
def test_one_step_of_each_request_is_found(requests: int, steps: int, first: int, seed: int) -> None:
    first %= steps
    random = np.random.default_rng(seed)
    made = [random.normal(size=(3 + request + step, 2)) for request in range(requests) for step in range(steps)]
    whole = np.concatenate(made[first::steps])
    found = list(Rounds([raw(one) for one in made]).near(raw(whole), 1e-9))
    assert (len(made), first, steps) in {one.place for one in found}
    assert all(np.isclose(sum(part["Norm"] ** 2 for part in one.parts), np.linalg.norm(whole) ** 2) for one in found)


def test_another_norm_or_size_is_none() -> None:
    rounds = Rounds([raw(np.full((2, 2), float(number))) for number in range(1, 5)])
    assert list(rounds.near({"shape": [4, 2], "Norm": 12.0}, 1e-6)) == []
    assert list(rounds.near({"shape": [5, 2], "Norm": 2.0 * 5**0.5}, 1e-6)) == []


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_value_has_no_rounds(count: int) -> None:
    assert list(Rounds([raw(np.ones(3))] * count).near(raw(np.ones(3)), 1e-6)) == []
