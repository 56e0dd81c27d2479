"""Two tensors of a compiled and an eager module, judged."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.compiled_check.tensor_diff import allowed_error, compare_tensors  # noqa: E402

pytestmark = pytest.mark.torch

ONE = torch.linspace(-2, 3, 50)


@pytest.mark.parametrize(
    ("compiled", "eager", "agrees"),
    [
        (ONE, ONE.clone(), True),
        (ONE * (1 + 1e-6), ONE, True),
        (ONE * 1.01, ONE, False),
        ((ONE * 1.002).bfloat16(), ONE.bfloat16(), True),
        (ONE.bfloat16(), ONE, False),
        (ONE[:-1], ONE, False),
        (ONE, None, False),
        (None, ONE, False),
        (torch.tensor([math.nan, 1.0]), torch.tensor([2.0, 1.0]), False),
        (torch.tensor([math.nan, 1.0]), torch.tensor([math.nan, 1.0]), True),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
        (torch.zeros(0), torch.zeros(0), True),
    ],
)
def test_agreement(compiled: Any, eager: Any, agrees: bool) -> None:
    found = compare_tensors(compiled, eager)
    assert found is not None
    assert found.allclose is agrees
    assert bool(found.note) is not agrees


def test_nothing_on_both_sides_is_not_compared() -> None:
    assert compare_tensors(None, None) is None


def test_float64_is_the_arbiter_where_both_are_far_from_it() -> None:
    exact = torch.full((8,), 1e-9, dtype=torch.float64)
    eager, compiled = exact.float() + 3e-8, exact.float() - 2e-8
    assert not compare_tensors(compiled, eager).allclose
    judged = compare_tensors(compiled, eager, exact)
    assert judged.allclose
    assert "float64" in judged.note


@pytest.mark.parametrize(
    ("error", "beside", "agrees"), [(4e-8, 0.5, True), (4e-8, 0.0, False), (4e-4, 0.5, False)], ids=str
)
def test_a_sum_that_cancels_is_judged_by_what_is_computed_beside_it(error: float, beside: float, agrees: bool) -> None:
    exact = torch.zeros(8, dtype=torch.float64)
    assert compare_tensors(torch.full((8,), error), torch.full((8,), 1e-10), exact, beside).allclose is agrees


def test_what_has_right_digits_does_not_cancel() -> None:
    exact = torch.full((8,), 1e-6, dtype=torch.float64)
    assert not compare_tensors(torch.full((8,), 1.04e-6), exact.float(), exact, 1.0).allclose


def test_a_script_allows_what_the_verdict_allows() -> None:
    assert allowed_error(ONE, ONE.double()) == allowed_error(ONE, None)
    assert allowed_error(torch.tensor([1, 2]), None) == (0.0, 0.0)
    exact = torch.full((4,), 1e-9, dtype=torch.float64)
    assert allowed_error(exact.float() + 3e-8, exact) == pytest.approx((4 * 3e-8, 8 * 3e-8), rel=1e-3)


def test_truths_that_differ_are_told_beside_exact_ones() -> None:
    eager = torch.tensor([True, True, True])
    found = compare_tensors(torch.tensor([True, False, True]), eager, exact=eager)
    assert found is not None
    assert not found.allclose
    assert "1 of 3" in found.note
