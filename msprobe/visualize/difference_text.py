"""The JSON fields that comparing adds to a value of the target, by kind of comparison: differences, metrics or none."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msprobe.compare.columns import METRICS
from msprobe.compare.items import Leaf, describe
from msprobe.compare.mode import Mode
from msprobe.compare.recorded_number import bounded
from msprobe.compare.table import LeafTable
from msprobe.core.tensors.statistics import STATISTICS
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.metrics.tensor import UNSUPPORTED, TensorDifference
from msprobe.visualize.statistic_texts import DIFFERENCES, DIGITS
from msprobe.visualize.value_text import quoted

_METRIC_FIELDS = ",".join(f'"{name}":"%s"' for name in METRICS[Mode.TENSOR])
_NO_DIFFERENCES = DIFFERENCES % (("N/A",) * len(METRICS[Mode.STATISTICS]))
_MAX_CACHED = 10_000


class DifferenceTexts:
    """Makes the fields of the rows of a table, one by one; ``StatisticTexts`` has those of ordinary statistics."""

    def __init__(self, mode: Mode, table: LeafTable, tensors: Sequence[TensorDifference | None] | None) -> None:
        self._mode, self._table, self._tensors = mode, table, tensors
        self._equal: dict[tuple[str, float], str] = {}
        self._cache: dict[tuple[tuple[Cell, ...], tuple[Cell, ...]], str] = {}

    def of_row(self, row: int) -> str:
        """Return the fields of a row with a target value, without braces; "" for checksums."""
        if self._mode is Mode.CHECKSUM:
            return ""
        if self._mode is Mode.TENSOR:
            difference = self._tensors[row] if self._tensors is not None else None
            cells = difference.cells if difference is not None else UNSUPPORTED
            return _METRIC_FIELDS % tuple(map(_escaped, cells))
        target, golden = self._table.target[row], self._table.golden[row]
        return _NO_DIFFERENCES if target is None or golden is None else self._differences(target, golden)

    def _differences(self, target: Leaf, golden: Leaf) -> str:
        left, right = target[2], golden[2]
        if type(left) is dict and len(left) == 2 and left == right:
            value = left.get("value")
            if type(value) is int:  # the plain numbers that repeat in nearly every call
                return self._equal_numbers(value, "0")
            if type(value) is float and value != 0.0:  # zeros may differ in sign
                return self._equal_numbers(value, "0.0")
        key = describe(target).statistics, describe(golden).statistics
        text = self._cache.get(key)
        if text is None:
            pairs = [_difference_texts(*cells) for cells in zip(*key, strict=True)]
            text = DIFFERENCES % (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
            if len(self._cache) < _MAX_CACHED:
                self._cache[key] = text
        return text

    def _equal_numbers(self, value: float, zero: str) -> str:
        """Return the fields of a row where both sides have this number."""
        text = self._equal.get((zero, value))
        if text is None:
            percent = "0.0%" if value else "N/A"
            text = DIFFERENCES % ((zero,) * len(STATISTICS) + (percent,) * len(STATISTICS))
            self._equal[zero, value] = text
        return text


def _difference_texts(target: Cell, golden: Cell) -> tuple[str, str]:
    """Return difference and relative difference of any two statistics; ``N/A`` where they are no numbers."""
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
