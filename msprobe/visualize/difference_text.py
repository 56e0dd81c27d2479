"""The fields that comparing adds to a value of the target: differences, metrics or nothing, by kind of comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msprobe.compare.columns import METRICS
from msprobe.compare.items import Leaf, describe
from msprobe.compare.mode import Mode
from msprobe.compare.recorded_number import bounded
from msprobe.compare.table import LeafTable
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference
from msprobe.visualize.statistic_texts import DIFFERENCES, DIGITS
from msprobe.visualize.value_text import quoted

_TENSOR_FORMAT = ",".join(f'"{name}":"%s"' for name in METRICS[Mode.TENSOR])
_MISSING = DIFFERENCES % (("N/A",) * 8)


class DifferenceTexts:
    """The fields of the rows of a table, one by one; ``StatisticTexts`` has those of ordinary statistics."""

    def __init__(self, mode: Mode, table: LeafTable, tensors: Sequence[TensorDifference | None] | None) -> None:
        self._mode, self._table, self._tensors = mode, table, tensors
        self._equal: dict[tuple[str, float], str] = {}
        self._known: dict[tuple[tuple[Cell, ...], tuple[Cell, ...]], str] = {}

    def of(self, row: int) -> str:
        """The fields of a row with a target value, without braces; "" for checksums."""
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
        if type(left) is dict and len(left) == 2 and left == right:
            value = left.get("value")
            if type(value) is int:  # the plain numbers that repeat in nearly every call
                return self._same(value, "0")
            if type(value) is float and value != 0.0:  # zeros may differ in sign
                return self._same(value, "0.0")
        key = describe(ours).statistics, describe(theirs).statistics
        text = self._known.get(key)
        if text is None:
            pairs = [_difference(left, right) for left, right in zip(*key, strict=True)]
            text = DIFFERENCES % (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
            if len(self._known) < 10_000:
                self._known[key] = text
        return text

    def _same(self, value: float, zero: str) -> str:
        """The fields where both sides have this number."""
        text = self._equal.get((zero, value))
        if text is None:
            text = DIFFERENCES % ((zero,) * 4 + (("0.0%" if value else "N/A"),) * 4)
            self._equal[zero, value] = text
        return text


def _difference(target: Cell, golden: Cell) -> tuple[str, str]:
    """Difference and relative difference of any two statistics; ``N/A`` for what is no number."""
    if target == "Nan" or golden == "Nan":
        return "Nan", "Nan"
    if isinstance(target, str) or isinstance(golden, str):
        return ("0.0", "0.0%") if target == golden != "None" else ("N/A", "N/A")
    target, golden = bounded(target), bounded(golden)
    if target == golden:
        zero = str(target - golden) if math.isfinite(target) else "0.0"
        return zero, "0.0%" if golden else "N/A"
    difference = target - golden
    if golden == 0:
        return str(difference), "N/A"
    relative = abs(difference / golden) * 100 if math.isfinite(golden) else math.nan
    return str(difference), f"{round(relative, DIGITS)}%" if relative == relative else "Nan"


def _escaped(cell: Cell) -> str:
    return quoted(str(cell))[1:-1]
