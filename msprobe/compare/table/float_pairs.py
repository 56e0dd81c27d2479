"""The statistics of plain rows as arrays: pairs of tensors whose statistics are all floats.

Nearly every row of a statistics table is of this kind. Measuring, judging and writing all start from these arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from msprobe.core.store.record_walk import Leaf, form_damage
from msprobe.core.tensors.statistics import PROJECTION, STATISTIC_NAMES
from msprobe.trace.leaves import PIECES

COUNT = len(STATISTIC_NAMES)
_LAST, _CHECKSUM = STATISTIC_NAMES[-1], "md5"
_FLOATS = {float}
_OPTIONAL = {float, type(None)}
_statistics_of = itemgetter(*STATISTIC_NAMES)
_dtype_and_shape = itemgetter("dtype", "shape")


class FloatPairs(NamedTuple):
    """The rows whose two tensors have a float for every statistic, NaN and infinities among them, and where they have a
    projection, a float for it.

    Attributes:
        rows: row numbers, ascending.
        values: shape (rows, 2, statistics): the statistics of the target, then of the golden tensor, in table order.
        kinds: one number per row; rows of equal dtypes, shapes and flags are of one kind, and have the same
            number; with checksums or without.
        kind_samples: the two records of one row of each kind, by the number of the kind.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    kinds: NDArray[np.int64]
    kind_samples: list[tuple[Any, Any]]

    def within(self, start: int, stop: int) -> slice:
        """Return where the rows of ``range(start, stop)`` stand in these arrays."""
        first, last = np.searchsorted(self.rows, (start, stop)).tolist()
        return slice(first, last)


def float_pairs(target: Sequence[Leaf | None], golden: Sequence[Leaf | None]) -> FloatPairs:
    """Collect the statistics of the rows whose leaves, one per row and side, are ``target`` and ``golden``."""
    rows: list[int] = []
    kinds: list[int] = []
    pairs: list[tuple[Any, ...]] = []
    samples = _KindSamples()
    for row, (left, right) in enumerate(zip(target, golden, strict=True)):
        if left is None or right is None:
            continue
        record, other = left[2], right[2]
        if type(record) is type(other) is dict and _LAST in record and _LAST in other:
            if type(record.get(PROJECTION)) not in _OPTIONAL or type(other.get(PROJECTION)) not in _OPTIONAL:
                continue
            try:
                kind, pair = samples.number(record, other), _statistics_of(record) + _statistics_of(other)
            except KeyError:
                continue  # a description without dtype, shape or one of the statistics
            pairs.append(pair)
            kinds.append(kind)
            rows.append(row)
    if set(map(type, chain.from_iterable(pairs))) - _FLOATS:
        kept = [number for number, pair in enumerate(pairs) if set(map(type, pair)) == _FLOATS]
        rows, kinds, pairs = ([column[number] for number in kept] for column in (rows, kinds, pairs))  # type: ignore[assignment]
    values = np.fromiter(chain.from_iterable(pairs), np.float64, 2 * COUNT * len(pairs)).reshape(-1, 2, COUNT)
    return FloatPairs(np.array(rows, np.int64), values, np.array(kinds, np.int64), samples.samples)


class _KindSamples:
    """Numbers for pairs of records by what they hold beside statistics; few serve many rows."""

    def __init__(self) -> None:
        self.samples: list[tuple[Any, Any]] = []
        self._numbers: dict[Any, int] = {}

    def number(self, record: dict[str, Any], other: dict[str, Any]) -> int:
        """Return the number of the kind of two records; ``KeyError`` where one has no dtype or shape, or none that a
        tensor can have."""
        dtype, shape = _dtype_and_shape(record)
        other_dtype, other_shape = _dtype_and_shape(other)
        try:
            lengths = tuple(shape)
            other_lengths = lengths if shape == other_shape else tuple(other_shape)
            flags = record.get("requires_grad"), other.get("requires_grad"), record.get(PIECES), other.get(PIECES)
            has_checksum = _CHECKSUM in record or _CHECKSUM in other
            key = dtype, other_dtype, lengths, other_lengths, flags, has_checksum
            number = self._numbers.get(key)
        except TypeError:  # a damaged dump may hold anything
            key, number = None, None
        if number is None:
            if form_damage(record) or form_damage(other):
                raise KeyError
            number = len(self.samples)
            self.samples.append((record, other))
            if key is not None:
                self._numbers[key] = number
        return number


def float_texts(values: NDArray[np.float64]) -> list[str]:
    """Return for each value the shortest text that reads back as the same float, as ``repr`` writes it; NaN and
    infinities as JSON tokens.
    """
    texts = to_json(values.tolist(), inf_nan_mode="constants").decode()[1:-1].split(",")
    with np.errstate(invalid="ignore"):
        size = np.abs(values)
        odd = np.isfinite(values) & ((size >= 1e15) | ((size < 1.1e-4) & (size > 0)))
    distinct, numbers = np.unique(values[odd], return_inverse=True)
    shown = list(map(repr, distinct.tolist()))
    for position, number in zip(odd.nonzero()[0].tolist(), numbers.tolist(), strict=True):
        texts[position] = shown[number]
    return texts
