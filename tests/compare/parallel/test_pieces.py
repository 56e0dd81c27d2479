"""What pieces make: cuts, copies and sums, beside the statistics of real tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.parallel.pieces import Interval, Piece, added, joined, piece_of, shards
from msprobe.core.tensors.projection import projection

SEEDS = st.integers(0, 2**32 - 1)


def record(values: np.ndarray[Any, Any], dtype: str = "torch.float32") -> dict[str, Any]:
    """Return the record of a tensor with these elements."""
    return {
        "type": "torch.Tensor",
        "dtype": dtype,
        "shape": list(values.shape),
        "Max": float(values.max()),
        "Min": float(values.min()),
        "Mean": float(values.mean()),
        "Norm": float(np.sqrt((values**2).sum())),
        "Projection": projection(values),
    }


def piece(values: np.ndarray[Any, Any]) -> Piece:
    made = piece_of(record(values))
    assert made is not None
    return made


def drawn(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape)


@given(SEEDS, st.integers(0, 2), st.integers(2, 4))
def test_a_cut_tensor_has_the_statistics_of_the_whole_along_every_axis(seed: int, axis: int, count: int) -> None:
    whole = drawn(seed, 4, 4, 4)
    made = joined([piece(part) for part in np.array_split(whole, count, axis)])
    wanted = piece(whole)
    assert (made.numel, made.largest, made.smallest) == (64, wanted.largest, wanted.smallest)
    assert made.mean == pytest.approx(wanted.mean) and made.norm is not None and wanted.norm is not None
    assert made.norm.low == pytest.approx(wanted.norm.low)
    assert made.projection is None, "where the elements are is not known"


@given(SEEDS, st.integers(2, 4))
def test_a_sum_has_the_mean_and_the_projection_of_the_whole_and_bounds_for_the_rest(seed: int, count: int) -> None:
    parts = [drawn(seed + number, 3, 5) for number in range(count)]
    made, wanted = added([piece(part) for part in parts]), piece(np.sum(parts, axis=0))
    assert made.mean == pytest.approx(wanted.mean) and made.projection == pytest.approx(wanted.projection)
    bounds = ((made.largest, wanted.largest), (made.smallest, wanted.smallest), (made.norm, wanted.norm))
    for bound, known in bounds:
        assert bound is not None and known is not None
        assert bound.low - 1e-9 <= known.low <= bound.high + 1e-9
        assert bound.nearest(known) == pytest.approx(known.low)


@given(SEEDS, st.integers(2, 4))
def test_of_a_sum_of_complex_numbers_there_are_bounds_alone(seed: int, count: int) -> None:
    parts = [drawn(seed + number, 3, 5) + 1j * drawn(seed + count + number, 3, 5) for number in range(count)]
    records = [record(np.abs(part), "torch.complex64") for part in (*parts, np.sum(parts, axis=0))]
    *pieces, wanted = (piece for each in records if (piece := piece_of(each)) is not None)
    made = added(pieces)
    assert made.mean is None and made.projection is None, "magnitudes do not add up"
    for bound, known in ((made.largest, wanted.largest), (made.smallest, wanted.smallest), (made.norm, wanted.norm)):
        assert bound is not None and known is not None and bound.low - 1e-9 <= known.low <= bound.high + 1e-9
    assert made.record(wanted, [3, 5])["Mean"] == wanted.raw["Mean"]


def test_two_bounds_that_overlap_show_one_number() -> None:
    first, second = Interval(1.0, 3.0), Interval(2.0, 5.0)
    assert first.nearest(second) == second.nearest(first) == 2.0
    assert (Interval(0.0, 1.0).nearest(second), second.nearest(Interval(0.0, 1.0))) == (1.0, 2.0)


def test_copies_agree_and_others_do_not() -> None:
    values = drawn(1, 4, 4)
    assert piece(values).agrees(piece(values.copy()))
    assert not piece(values).agrees(piece(values[::-1])), "the order is not the same"
    assert not piece(values).agrees(piece(values * 1.001))


def test_statistics_of_sixteen_bits_keep_their_digits() -> None:
    halves = [record(np.full((4,), value), "torch.bfloat16") for value in (1.0, 1.0078125)]
    made = joined([one for half in halves if (one := piece_of(half)) is not None]).record(None, [8])
    assert made["Norm"] == 2.84375, "8 bits of 2.8395"


def test_what_has_no_statistics_is_no_piece() -> None:
    assert piece_of({"type": "int", "value": 2}) is None
    assert piece_of({"dtype": "torch.float32", "shape": [2], "Max": None, "Min": None}) is None


def test_a_placed_tensor_has_the_elements_of_its_shard() -> None:
    raw = record(drawn(0, 4, 4)) | {"placements": ["Replicate", {"Shard": {"dim": 0}}], "device_mesh": [[0, 1], [2, 3]]}
    made = piece_of(raw)
    assert shards(raw) == 2 and made is not None and made.numel == 8 and made.projection is None


def test_a_cut_of_a_cut_is_counted() -> None:
    placed = {"device_mesh": [[0, 1], [2, 3]], "placements": [{"StridedShard": {"dim": 0}}, {"Shard": {"dim": 0}}]}
    assert shards(placed) == 4
    assert shards(placed | {"placements": [{"Replicate": {}}, {"Shard": {"dim": 0}}]}) == 2
