"""Sequences compared token by token: padding, gaps, KL, and the first token that differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.saved_values.sequences import SequenceGap, compare_sequences

LOGS = -np.abs(np.random.default_rng(1).normal(size=(2, 6))).astype(np.float32)
ALL = np.ones((2, 6), np.int64)


def gap(target: np.ndarray, golden: np.ndarray, mask: np.ndarray | None = None) -> SequenceGap:  # type: ignore[type-arg]
    """Return the comparison of one sequence with one mask for both sides."""
    ones = np.ones_like(target) if mask is None else mask
    (found,) = compare_sequences(target[None], golden[None], (ones[None], ones[None][:, : golden.shape[0]]))
    return found


def test_equal() -> None:
    assert [(one.level, one.mean_gap, one.kl) for one in compare_sequences(LOGS, LOGS, (ALL, ALL))] == [
        ("pass", 0.0, 0.0)
    ] * 3  # two sequences, and all tokens together


def test_the_first_token_and_the_largest_gap() -> None:
    moved = LOGS[0].copy()
    moved[2] -= 0.01
    moved[4] -= 1.0
    found = gap(moved, LOGS[0])
    assert (found.level, found.first_token, found.worst_token) == ("error", 2, 4)
    assert found.largest_gap == pytest.approx(1.0, rel=1e-5)
    assert found.mean_gap == pytest.approx(-1.01 / 6, rel=1e-4)
    d = np.array([0.01, 1.0])
    assert found.kl == pytest.approx(float(np.sum(np.exp(d) - 1 - d)) / 6, rel=1e-3)


def test_padding_moves_nothing() -> None:
    left = np.concatenate([np.full(3, 7.0, np.float32), LOGS[0]])[None]
    mask = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 1]])
    (found,) = compare_sequences(left, LOGS[:1], (mask, ALL[:1]))
    assert (found.level, found.tokens) == ("pass", "6")


def test_what_is_masked_does_not_count() -> None:
    moved = LOGS[0].copy()
    moved[5] = np.nan
    mask = np.array([1, 1, 1, 1, 1, 0])
    assert gap(moved, LOGS[0], mask).level == "pass"
    found = gap(moved, LOGS[0])
    assert (found.level, found.first_token, found.kl) == ("error", 5, None)


def test_token_ids() -> None:
    ids = np.array([5, 6, 7, 8])
    assert gap(ids, ids).level == "pass"
    found = gap(np.array([5, 6, 9, 9]), ids)
    assert (found.level, found.first_token, found.note) == ("error", 2, "2 of 4 tokens are others")


def test_lengths_that_differ() -> None:
    (found,) = compare_sequences(np.arange(4)[None], np.arange(4)[None], (np.ones((1, 4)), np.array([[1, 1, 1, 0]])))
    assert (found.level, found.tokens, found.first_token) == ("error", "4 / 3", 3)


def test_wrong_shapes() -> None:
    with pytest.raises(ReadError, match="do not fit a mask"):
        compare_sequences(LOGS, LOGS, (ALL[:1], ALL))
    with pytest.raises(ReadError, match="2 sequences against 1"):
        compare_sequences(LOGS, LOGS[:1], (ALL, ALL[:1]))


@given(st.lists(st.floats(-20, 0, width=32), min_size=1, max_size=20), st.integers(0, 19), st.floats(0.5, 3))
def test_one_changed_token_is_found(values: list[float], at: int, change: float) -> None:
    golden = np.array(values, np.float32)
    at %= len(values)
    target = golden.copy()
    target[at] -= np.float32(change)
    found = gap(target, golden)
    assert (found.level, found.first_token, found.worst_token) == ("error", at, at)
    assert found.kl is not None and found.kl >= 0


@given(st.lists(st.floats(-20, -0.125, width=32), min_size=1, max_size=20))
def test_rounding_is_no_difference(values: list[float]) -> None:
    golden = np.array(values, np.float32)
    assert gap(np.nextafter(golden, np.float32(-99)), golden).level == "pass"
