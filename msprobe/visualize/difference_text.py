"""The fields that comparing adds to a value of the target: differences, metrics or nothing, by kind of comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from msprobe.compare.items import Leaf, describe
from msprobe.compare.mode import Mode
from msprobe.compare.plain import FloatPairs, float_texts
from msprobe.compare.table import LeafTable
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference
from msprobe.visualize.value_text import quoted

STATISTICS = ("Max diff", "Min diff", "Mean diff", "L2norm diff")
RELATIVE = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
TENSOR = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)
_FORMAT = ",".join(f'"{name}":"%s"' for name in (*STATISTICS, *RELATIVE))
_TENSOR_FORMAT = ",".join(f'"{name}":"%s"' for name in TENSOR)
_MISSING = _FORMAT % (("N/A",) * 8)
_DIGITS = 6


class DifferenceTexts:
    """The fields of every row of a table."""

    def __init__(self, mode: Mode, table: LeafTable, tensors: Sequence[TensorDifference | None] | None) -> None:
        self._mode, self._table, self._tensors = mode, table, tensors
        self._plain = _plain_rows(table.float_pairs) if mode is Mode.STATISTICS else {}
        self._equal: dict[int, str] = {}
        self._known: dict[tuple[tuple[Cell, ...], tuple[Cell, ...]], str] = {}

    def of(self, row: int) -> str:
        """The fields of a row with a target value, without braces; "" for checksums."""
        text = self._plain.get(row)
        if text is not None:
            return text
        if self._mode is Mode.CHECKSUM:
            return ""
        if self._mode is Mode.TENSOR:
            found = self._tensors[row] if self._tensors is not None else None
            cells = found.cells if found is not None else UNSUPPORTED
            return _TENSOR_FORMAT % tuple(map(_escaped, cells))
        ours, theirs = self._table.target[row], self._table.golden[row]
        return _MISSING if ours is None or theirs is None else self._odd(ours, theirs)

    def _odd(self, ours: Leaf, theirs: Leaf) -> str:
        left, right = ours[2], theirs[2]
        if type(left) is dict and len(left) == 2 and left == right and type(left.get("value")) is int:
            value = left["value"]  # the plain numbers that repeat in nearly every call
            text = self._equal.get(value)
            if text is None:
                text = self._equal[value] = _FORMAT % (("0",) * 4 + (("0.0%" if value else "N/A"),) * 4)
            return text
        key = describe(ours).statistics, describe(theirs).statistics
        text = self._known.get(key)
        if text is None:
            pairs = [_difference(left, right) for left, right in zip(*key, strict=True)]
            text = _FORMAT % (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
            if len(self._known) < 10_000:
                self._known[key] = text
        return text


def _plain_rows(pairs: FloatPairs) -> dict[int, str]:
    """The fields of ordinary rows by row number: tensors with finite statistics on both sides.

    difference = target - golden, in units of the data; relative = |difference / golden| in percent.
    """
    ours, theirs = pairs.values[:, :4], pairs.values[:, 4:]
    with np.errstate(all="ignore"):
        difference = ours - theirs
        percent = np.round(np.abs(difference / theirs) * 100, _DIGITS)
    usable = np.isfinite(pairs.values).all(axis=1) & np.isfinite(difference).all(axis=1)
    columns = []
    for k in range(4):
        columns.append(_texts(difference[:, k]))
    for k in range(4):
        columns.append(_percents(percent[:, k], theirs[:, k]))
    rows = pairs.rows.tolist()
    made = zip(rows, usable.tolist(), zip(*columns, strict=True), strict=True)
    return {row: _FORMAT % cells for row, good, cells in made if good}


def _texts(numbers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[str]:
    return float_texts(numbers) if numbers.any() else ["0.0"] * len(numbers)


def _percents(
    percent: np.ndarray[tuple[int], np.dtype[np.float64]], golden: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> list[str]:
    """``N/A`` where the golden value is 0."""
    finite = np.isfinite(percent)
    texts = [text + "%" for text in _texts(np.where(finite, percent, 0.0))]
    for at in (~finite).nonzero()[0].tolist():
        texts[at] = "inf%"
    for at in (golden == 0.0).nonzero()[0].tolist():
        texts[at] = "N/A"
    return texts


def _difference(target: Cell, golden: Cell) -> tuple[str, str]:
    """Difference and relative difference of any two statistics; ``N/A`` for what is no number."""
    if target == "Nan" or golden == "Nan":
        return "Nan", "Nan"
    if isinstance(target, str) or isinstance(golden, str):
        return ("0.0", "0.0%") if target == golden != "None" else ("N/A", "N/A")
    if target == golden:
        zero = str(target - golden) if math.isfinite(target) else "0.0"
        return zero, "0.0%" if golden else "N/A"
    difference = target - golden
    if golden == 0:
        return str(difference), "N/A"
    relative = abs(difference / golden) * 100 if math.isfinite(golden) else math.nan
    return str(difference), f"{round(relative, _DIGITS)}%" if relative == relative else "Nan"


def _escaped(cell: Cell) -> str:
    return quoted(str(cell))[1:-1]
