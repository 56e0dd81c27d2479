"""The cells of ordinary rows, many at once: pairs of tensors whose eight statistics are all finite floats.

Nearly every row of a statistics table is of this kind. Differences are computed as arrays and numbers become text in
bulk, column by column; the cells are the same as those made one by one, in the text Python's ``repr`` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from msprobe.compare.items import Leaf

_FLOATS = {float}
_AT_ONCE = 4096
_four = itemgetter("Max", "Min", "Mean", "Norm")
_frame = itemgetter("dtype", "shape")


@dataclass(frozen=True, slots=True)
class FloatPairs:
    """The rows, ascending, whose two tensors have four floats each, NaN and infinities among them.

    ``values`` has a line of eight per row: largest, smallest, mean and norm of the target, then of the golden run.
    Rows of equal dtypes, shapes and flags have one number in ``frames``; ``samples`` are the records of one of them, by
    that number.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    frames: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    samples: list[tuple[Any, Any]] = field(default_factory=list)

    def frames_of(self, start: int, stop: int) -> dict[int, int]:
        """Frame numbers by row number in ``range(start, stop)``."""
        first, last = np.searchsorted(self.rows, (start, stop)).tolist()
        return dict(zip(self.rows[first:last].tolist(), self.frames[first:last].tolist(), strict=True))


def float_pairs(target: Sequence[Leaf | None], golden: Sequence[Leaf | None]) -> FloatPairs:
    """Collect the statistics of all rows once; measuring and writing both start from them."""
    rows: list[int] = []
    frames: list[int] = []
    eights: list[tuple[Any, ...]] = []
    samples = _Samples()
    for row, (ours, theirs) in enumerate(zip(target, golden, strict=True)):
        if ours is None or theirs is None:
            continue
        left, right = ours[2], theirs[2]
        if type(left) is type(right) is dict and "Norm" in left and "Norm" in right:
            try:
                frame, eight = samples.number(left, right), _four(left) + _four(right)
            except KeyError:
                continue  # a description without dtype, shape or one of the four
            eights.append(eight)
            frames.append(frame)
            rows.append(row)
    if set(map(type, chain.from_iterable(eights))) - _FLOATS:
        kept = [number for number, eight in enumerate(eights) if set(map(type, eight)) == _FLOATS]
        rows, frames, eights = ([one[number] for number in kept] for one in (rows, frames, eights))  # type: ignore[assignment]
    values = np.fromiter(chain.from_iterable(eights), np.float64, 8 * len(eights)).reshape(-1, 8)
    return FloatPairs(np.array(rows, np.int64), values, np.array(frames, np.int64), samples.found)


class _Samples:
    """Numbers for pairs of records by what they say beside statistics; few serve many rows."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, Any]] = []
        self._known: dict[Any, int] = {}

    def number(self, ours: dict[str, Any], theirs: dict[str, Any]) -> int:
        dtype, shape = _frame(ours)
        other_dtype, other_shape = _frame(theirs)
        try:
            lengths = tuple(shape)
            other_lengths = lengths if shape == other_shape else tuple(other_shape)
            flags = ours.get("requires_grad"), theirs.get("requires_grad")
            key = dtype, other_dtype, lengths, other_lengths, flags
            number = self._known.get(key)
        except TypeError:  # a damaged dump may hold anything
            key, number = None, None
        if number is None:
            number = len(self.found)
            self.found.append((ours, theirs))
            if key is not None:
                self._known[key] = number
        return number


class ReadyTexts:
    """The texts of ordinary rows, made ahead of the verdicts and asked for once, in order."""

    def __init__(self, pairs: FloatPairs) -> None:
        self._values = pairs.values
        self._made: dict[int, list[str]] = {}
        self._next = 0
        self._last: tuple[int, list[str]] = -1, []

    def more(self) -> bool:
        """Make those of some further rows; False when there are none."""
        start = self._next * _AT_ONCE
        if start >= len(self._values):
            return False
        usable, texts = row_texts(self._values[start : start + _AT_ONCE])
        self._made[self._next] = [text if good else "" for good, text in zip(usable, texts, strict=True)]
        self._next += 1
        return True

    def texts(self, first: int, last: int) -> list[str] | None:
        """Those of rows ``first`` to ``last``, "" for rows that are no ordinary ones; None when they are not made, or
        were let go of."""
        found: list[str] = []
        for part in range(first // _AT_ONCE, -(-last // _AT_ONCE)):
            if self._last[0] != part:
                self._last = part, self._made.pop(part, [])
            start = part * _AT_ONCE
            found += self._last[1][max(first - start, 0) : last - start]
        return found if len(found) == last - first else None


def statistics_cells(pairs: FloatPairs, start: int, stop: int, ready: ReadyTexts | None = None) -> dict[int, str]:
    """By row number in ``range(start, stop)``, joined by commas: four differences, four relative ones, and the
    eight statistics. Only rows whose numbers are finite are there. ``ready`` may have them already."""
    first, last = np.searchsorted(pairs.rows, (start, stop)).tolist()
    if first == last:
        return {}
    rows = pairs.rows[first:last].tolist()
    written = ready.texts(first, last) if ready is not None else None
    if written is not None:
        return {row: text for row, text in zip(rows, written, strict=True) if text}
    usable, texts = row_texts(pairs.values[first:last])
    return {row: text for row, good, text in zip(rows, usable, texts, strict=True) if good}


def row_texts(values: NDArray[np.float64]) -> tuple[list[bool], list[str]]:
    """For each row of eight statistics: whether it is an ordinary row, and its sixteen cells as one text."""
    with np.errstate(all="ignore"):
        difference = values[:, :4] - values[:, 4:]
        percent = np.abs(difference / values[:, 4:] * 100)
    usable = np.isfinite(values).all(axis=1) & np.isfinite(difference).all(axis=1)
    # Equal by text, as readers compare: 0.0 and -0.0 are not.
    equal = (difference == 0.0) & (np.signbit(values[:, :4]) == np.signbit(values[:, 4:]))
    columns = []
    for numbers, suffix in ((difference, ""), (percent, "%")):
        for k in range(4):
            columns.append(_column(numbers[:, k], equal[:, k], suffix))
    columns.extend(float_texts(values[:, k]) for k in range(4))
    same = equal.all(axis=0).tolist()
    columns.extend(columns[8 + k] if same[k] else float_texts(values[:, 4 + k]) for k in range(4))
    return usable.tolist(), list(map(",".join, zip(*columns, strict=True)))


def _column(numbers: NDArray[np.float64], equal: NDArray[np.bool_], suffix: str) -> list[str]:
    """``0`` where both sides are equal, ``inf`` where a relative difference has no value."""
    if equal.all():
        return ["0"] * len(numbers)
    texts = float_texts(numbers)
    if suffix:
        texts = [text + suffix for text in texts]
        for at in (~np.isfinite(numbers)).nonzero()[0].tolist():
            texts[at] = "inf"
    for at in equal.nonzero()[0].tolist():
        texts[at] = "0"
    return texts


def float_texts(values: NDArray[np.float64]) -> list[str]:
    """The shortest text that reads back as the same float, as ``repr`` writes it; NaN and infinities as JSON
    tokens."""
    texts = to_json(values.tolist(), inf_nan_mode="constants").decode()[1:-1].split(",")
    with np.errstate(invalid="ignore"):
        size = np.abs(values)
        odd = np.isfinite(values) & ((size >= 1e15) | ((size < 1.1e-4) & (size > 0)))
    for at, text in zip(odd.nonzero()[0].tolist(), map(repr, values[odd].tolist()), strict=True):
        texts[at] = text
    return texts
