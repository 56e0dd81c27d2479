"""Functions of two frameworks are one where their tensors have the same sizes; what a primitive keeps is no result."""

from __future__ import annotations

import pytest

from msprobe.compare.layer_inference.name_folding import same_sizes
from tests.compare.dumps import call, number, tensor

LEFT = call([tensor(shape=(4, 8)), tensor(shape=(8,))], [tensor(shape=(4, 8))])
RIGHT = {
    "numbers_between": (call([tensor(shape=(4, 8)), number(1), tensor(shape=(8,))], [tensor(shape=(4, 8))]), True),
    "other_axes": (call([tensor(shape=(2, 2, 8)), tensor(shape=(8,))], [tensor(shape=(2, 2, 8))]), True),
    "other_order": (call([tensor(shape=(8,)), tensor(shape=(4, 8))], [tensor(shape=(4, 8))]), True),
    "more_results": (
        call([tensor(shape=(4, 8)), tensor(shape=(8,))], [tensor(shape=(4, 8)), tensor(shape=(4, 1))]),
        True,
    ),
    "another_first_result": (
        call([tensor(shape=(4, 8)), tensor(shape=(8,))], [tensor(shape=(4, 1)), tensor(shape=(4, 8))]),
        False,
    ),
    "no_result": (call([tensor(shape=(4, 8)), tensor(shape=(8,))], []), False),
    "one_more_given": (call([tensor(shape=(4, 8))] * 2 + [tensor(shape=(8,))], [tensor(shape=(4, 8))]), False),
}


@pytest.mark.parametrize("case", list(RIGHT))
def test_the_form_of_a_call(case: str) -> None:
    other, alike = RIGHT[case]
    assert same_sizes(LEFT, other) is alike and same_sizes(other, LEFT) is alike
