"""Statistics of two runs, judged by the tolerance of rounding alone."""

from __future__ import annotations

import numpy as np

from msprobe.numerics.array_verdict import judge_arrays
from msprobe.numerics.statistic_cells import relative_tolerance, times_tolerance


def test_small_values_of_rounded_files_get_the_resolution() -> None:
    target, golden = np.float32([2e-6, 1.0]), np.float32([3e-6, 1.01])
    times = times_tolerance(target, golden, golden, resolution=2e-6)
    assert times[0] < 1.0 < times[1]
    assert times_tolerance(target, golden, golden)[0] > 1.0


def test_the_tolerance_is_that_of_two_arrays() -> None:
    for factor, level in ((0.9, "pass"), (1.2, "error")):
        moved = np.array([1.0 + factor * relative_tolerance()])
        assert judge_arrays(moved, np.ones(1), "float32").level == level


def test_what_is_not_finite_on_one_side_is_infinitely_wrong() -> None:
    nan, inf = np.nan, np.inf
    target, golden = np.float32([nan, nan, inf, inf, 1.0]), np.float32([nan, 1.0, inf, -inf, inf])
    assert times_tolerance(target, golden, golden).tolist() == [0.0, inf, 0.0, inf, inf]
