"""Twins: the value of the other run, wherever it stands."""

from __future__ import annotations

import math
from typing import Any

from msprobe.compare.verdict.twins import Twins
from msprobe.core.tensors.projection import KEY


def tensor(norm: float, order: float = 1.0, shape: tuple[int, ...] = (2, 3), largest: float = 2.0) -> dict[str, Any]:
    """Return the record of a tensor in float32."""
    statistics = {"Max": largest, "Min": -1.0, "Mean": 0.1, "Norm": norm, KEY: order}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), **statistics}


def test_the_nearest_value_of_the_same_elements_is_the_twin() -> None:
    twins = Twins(([], [tensor(3.0), tensor(3.1), tensor(3.0, shape=(6,)), tensor(3.0, largest=2.5)]), 0.0)
    assert twins.apart(0, tensor(3.0)) == 0.0
    assert 0.0 < twins.apart(0, tensor(3.00001)) < 2e-5
    assert twins.apart(0, tensor(3.05)) == math.inf
    assert twins.apart(0, tensor(3.0, shape=(3, 3))) == math.inf


def test_of_one_shape_the_order_counts() -> None:
    twins = Twins(([], [tensor(3.0)]), 0.0)
    assert twins.apart(0, tensor(3.0, order=2.0)) == math.inf
    assert twins.are_in_another_order(0, tensor(3.0, order=2.0))
    assert twins.apart(0, tensor(3.0, order=2.0, shape=(6,))) == 0.0


def test_what_is_judged_another_value_is_no_twin_where_it_is_used_again() -> None:
    partner = tensor(3.0)
    assert Twins(([], [partner, tensor(3.0, shape=(6,))]), 0.0).apart(0, tensor(3.00001), partner) == math.inf
    other = tensor(3.0, order=1.00001)
    assert Twins(([], [partner, other]), 0.0).apart(0, tensor(3.0, order=1.00001), partner) == 0.0


def test_what_is_taken_together_has_one_norm_and_the_same_extremes() -> None:
    twins = Twins(([], []), 0.0)
    pieces = [tensor(3.0, largest=2.0), tensor(4.0, largest=1.5)]
    assert twins.unions_distance(pieces, [tensor(5.0, shape=(4, 3))]) == 0.0
    assert twins.unions_distance(pieces, [tensor(5.0, shape=(4, 3), largest=1.5)]) == math.inf
    assert twins.unions_distance(pieces, [tensor(5.1, shape=(4, 3))]) == math.inf
    assert twins.unions_distance(pieces, []) == math.inf
