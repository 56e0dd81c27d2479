"""Statistics of a tensor follow from those of its parts, however it is cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS
from msprobe.numerics.merged_statistics import Shard, merged_statistics

_values = st.lists(st.floats(-1e6, 1e6, allow_nan=False, width=32), min_size=1, max_size=40)


def _shard(values: NDArray[np.float64]) -> Shard:
    norm = float(np.linalg.norm(values))
    return Shard((float(values.max()), float(values.min()), float(values.mean()), norm), values.size)


@given(_values, st.lists(st.integers(1, 39), max_size=4))
def test_parts_make_the_whole(values: list[float], cuts: list[int]) -> None:
    whole = np.array(values)
    parts = [part for part in np.split(whole, sorted(cuts)) if part.size]
    merged, expected = merged_statistics(list(map(_shard, parts))), _shard(whole)
    assert merged.numel == expected.numel
    assert merged.statistics[:2] == expected.statistics[:2]
    assert merged.statistics[2] == pytest.approx(expected.statistics[2], rel=1e-9, abs=1e-9 * np.abs(whole).max())
    assert merged.statistics[3] == pytest.approx(expected.statistics[3], rel=1e-9)


def test_an_empty_part_does_not_count() -> None:
    full = Shard((2.0, -1.0, 0.5, 3.0), 4)
    assert merged_statistics([full, Shard((0.0, 0.0, 0.0, 0.0), 0)]) == full


@pytest.mark.parametrize("index", range(len(STATISTICS)), ids=STATISTIC_NAMES)
def test_nan_stays(index: int) -> None:
    values = [1.0] * len(STATISTICS)
    values[index] = math.nan
    merged = merged_statistics([Shard(tuple(values), 1), Shard((math.inf,) * len(STATISTICS), 1)])
    assert math.isnan(merged.statistics[index])


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="no parts"):
        merged_statistics([])
