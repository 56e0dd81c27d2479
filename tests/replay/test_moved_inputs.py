"""How many terms the sums of a result may have, by the sizes of what is given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.backend.replaying import HeldTensor, PreparedCall
from msprobe.replay.moved_inputs import _signs, _stages, _terms


def call(*shapes: tuple[int, ...]) -> PreparedCall:
    return PreparedCall("Torch", "f", [HeldTensor(np.zeros(shape), "float32") for shape in shapes], {})


@pytest.mark.parametrize(
    ("shapes", "size", "terms"),
    [
        ([(8, 64), (64, 16)], 8 * 16, 64.0),
        ([(100, 7)], 7, 100.0),
        ([(5,)], 5, 1.0),
        ([], 3, 1.0),
        ([(4,)], 0, 1.0),
        ([(2,)], 1000, 1.0),
    ],
)
def test_terms(shapes: list[tuple[int, ...]], size: int, terms: float) -> None:
    assert _terms(call(*shapes), size) == pytest.approx(terms)


@pytest.mark.parametrize(
    ("api", "stages"), [("exp", 1.0), ("scaled_dot_product_attention", 1.0), ("lstm", 3.0), ("gru_cell", 1.5)]
)
def test_functions_that_round_on_the_way(api: str, stages: float) -> None:
    given = PreparedCall("VF", api, call((20, 4, 8)).args, {})
    assert _stages(given) == pytest.approx(stages, rel=0.01)


@given(st.lists(st.integers(0, 5), max_size=4))
def test_signs_are_of_one_size(shape: list[int]) -> None:
    signs = _signs(np.random.default_rng(0), tuple(shape))
    assert signs.shape == tuple(shape)
    assert set(signs.ravel().tolist()) <= {1.0, -1.0}
