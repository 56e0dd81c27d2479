"""How many terms the sums of a result may have, by the sizes of what is given."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe.core.backend.replaying import HeldTensor, PreparedCall
from msprobe.replay.moved_inputs import _terms


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
