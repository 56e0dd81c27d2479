"""Verdicts on two arrays without a call around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe.numerics.array_verdict import allowed_difference, judge_arrays

VALUES = np.random.default_rng(1).normal(size=500).astype(np.float32)
WITH_NAN, WITH_INF = VALUES.copy(), VALUES.copy()
WITH_NAN[3], WITH_INF[3] = np.nan, np.inf


@pytest.mark.parametrize(
    ("target", "golden", "dtype", "level"),
    [
        (VALUES, VALUES.copy(), "float32", "pass"),
        (VALUES * np.float32(1 + 1e-6), VALUES, "float32", "pass"),
        (VALUES * np.float32(1.01), VALUES, "float32", "error"),
        (VALUES * np.float32(1.004), VALUES, "bfloat16", "pass"),
        (VALUES[::-1], VALUES, "bfloat16", "error"),
        (WITH_NAN, WITH_NAN.copy(), "float32", "pass"),
        (WITH_NAN, VALUES, "float32", "error"),
        (VALUES, WITH_INF, "float32", "error"),
        (-WITH_INF, WITH_INF, "float32", "error"),
        (VALUES, VALUES[:3], "float32", "error"),
        (np.array([1, 2]), np.array([1, 3]), "int64", "error"),
        (np.array([1, 2], np.uint8), np.array([1, 2]), "int64", "pass"),
        (np.array([0], np.uint8), np.array([255], np.uint8), "uint8", "error"),
        (np.zeros(0), np.zeros(0), "float32", "pass"),
        (np.zeros(3), np.zeros(3), "float32", "pass"),
        (np.zeros(3), np.ones(3) * 1e-3, "float32", "error"),
        (np.array(1.0), np.array(1.0000001), "float32", "pass"),
        (VALUES + 1j * VALUES, VALUES + 1.1j * VALUES, "complex64", "error"),
    ],
)
def test_levels(target: Any, golden: Any, dtype: str, level: str) -> None:
    verdict = judge_arrays(target, golden, dtype)
    assert (verdict.level, bool(verdict.reason)) == (level, level != "pass"), verdict


def test_the_coarser_type_decides() -> None:
    moved = VALUES * np.float32(1.004)
    assert judge_arrays(moved, VALUES, "float32", "bfloat16").level == "pass"
    assert judge_arrays(moved, VALUES, "bfloat16", "float32").level == "pass"


def test_the_allowed_difference_is_that_of_the_verdict() -> None:
    golden = np.linspace(-2, 3, 40).astype(np.float32)
    allowed = allowed_difference(golden, "float32")
    for factor, level in ((0.9, "pass"), (1.1, "error")):
        one, every = golden.copy(), golden + np.float32(allowed.norm * factor / np.sqrt(golden.size))
        one[0] += allowed.element * factor
        assert judge_arrays(one, golden, "float32").level == level
        assert judge_arrays(every, golden, "float32").level == level
    assert allowed_difference(np.arange(3), "int64") == (0.0, 0.0)
    assert allowed_difference(np.zeros(0, np.float32), "float32") == (0.0, 0.0)
