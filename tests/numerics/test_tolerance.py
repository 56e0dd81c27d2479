"""Differences of single elements that statistics of an input do not show may show in the sum of its elements."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe.numerics.tolerance import LOOSE, STRICT, Factors, of_single_elements, tolerances, unit_roundoff
from msprobe.numerics.verdict import Level, Measured, Role, RowKind, judge

N = 4096


def call(mean: float, element: float, norm: float) -> Measured:
    """A call with an input of N elements whose mean differs by ``mean``, and a result of 64 sums of them."""
    ends = np.array([0, 2])
    return Measured(
        role=np.array([Role.INPUT, Role.RESULT], np.int64),
        kind=np.zeros(2, np.int64),
        element=np.array([1e-9, element]),
        mean=np.array([mean, 0.0]),
        norm=np.array([0.0, norm]),
        projection=np.zeros(2),
        roundoff=np.full(2, 2.0**-24),
        passed=np.full(2, 2.0**-24),
        numel=np.array([N, 64.0]),
        reduction=np.full(2, 64.0),
        rounded=np.zeros(2, np.bool_),
        whole=np.zeros(2, np.bool_),
        free=np.zeros(2),
        inexact=np.zeros(2),
        fresh=np.zeros(2, np.bool_),
        origin=np.full(2, -1),
        row_starts=ends,
        depends=np.array([-1]),
        coarsest=np.full(1, 2.0**-24),
        enclosing=np.array([-1]),
        steep=np.zeros(1),
        squares=np.zeros(1, np.bool_),
    )


@pytest.mark.parametrize(
    ("mean", "element", "norm", "level"),
    [
        pytest.param(2e-6, 3e-4, 1e-5, Level.PASS, id="explained-by-single-elements"),
        pytest.param(1e-7, 3e-4, 1e-5, Level.ERROR, id="mean-differs-by-its-own-rounding-only"),
        pytest.param(2e-6, 3e-2, 1e-5, Level.ERROR, id="more-than-that"),
        pytest.param(2e-6, 3e-4, 3e-3, Level.ERROR, id="a-norm-averages-it-out"),
    ],
)
def test_a_sum_is_allowed_what_its_terms_may_carry(mean: float, element: float, norm: float, level: Level) -> None:
    judged = judge(call(mean, element, norm))
    assert judged.level.tolist() == [Level.PASS, level]
    assert judged.kind[1] == (RowKind.NONE if level is Level.PASS else RowKind.VALUE)


@pytest.mark.parametrize(("roundoff", "level"), [(2.0**-24, Level.PASS), (0.0, Level.ERROR)])
def test_integers_carry_no_noise_of_earlier_calls(roundoff: float, level: Level) -> None:
    measured = call(1e-4, 0.0, 0.0)
    measured.roundoff[0] = measured.passed[0] = roundoff
    assert judge(measured, noise=1e-3).level[0] == level


@pytest.mark.parametrize(
    ("noise", "after", "element", "level"),
    [
        pytest.param(1e-5, False, 3e-5, Level.PASS, id="in-a-later-step"),
        pytest.param(0.0, True, 3e-5, Level.PASS, id="behind-an-update-of-this-step"),
        pytest.param(0.0, False, 3e-5, Level.ERROR, id="in-the-first-step"),
        pytest.param(1e-5, True, 3e-3, Level.ERROR, id="more-than-that"),
    ],
)
def test_an_update_makes_differences_that_no_statistic_shows(
    noise: float, after: bool, element: float, level: Level
) -> None:
    first, second = call(0.0, 1e-5 if after else 0.0, 0.0), call(0.0, element, 0.0)
    both = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in Measured.__slots__
        if name not in ("row_starts", "other_formats", "without_values", "after_update")
    }
    both["element"][0] = 1e-6  # what the inputs of the first call show
    measured = Measured(**both, row_starts=np.array([0, 2, 4]), after_update=np.array([False, after]))
    assert judge(measured, noise=noise).level[3] == level


def test_the_estimate_is_that_of_independent_elements() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, N))
    noise = 1e-4 * generator.normal(size=x.shape)
    mean = np.abs(noise.mean(axis=1)) / np.sqrt((x**2).mean(axis=1))
    norm = np.abs(np.linalg.norm(x + noise, axis=1) / np.linalg.norm(x, axis=1) - 1.0)
    found = of_single_elements(mean, norm, np.full(200, float(N)))
    assert np.median(found) == pytest.approx(1e-4, rel=0.3)
    exact = of_single_elements(np.array([5e-8]), np.array([1e-7]), np.array([1e9]))
    assert exact.tolist() == [0.0]


@pytest.mark.parametrize("factors", [STRICT, LOOSE], ids=["strict", "loose"])
@pytest.mark.parametrize(
    "dtype", ["torch.float8_e4m3fn", "Float8E5M2", "torch.float8_e5m2fnuz", "torch.float8_e8m0fnu", "HiFloat8"]
)
def test_no_dtype_allows_differences_as_large_as_its_largest_element(dtype: str, factors: Factors) -> None:
    one = np.ones(1)
    allowed = tolerances(one * unit_roundoff(dtype), one, one, factors).element[0]
    assert 2.0**-3 <= allowed <= 0.5 + 1e-9
