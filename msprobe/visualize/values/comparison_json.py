"""The JSON fields of compared values: statistics, their differences, and verdicts.

Nearly every row of a large graph is a pair of tensors whose statistics are all finite. ``StatisticPairs`` holds these
ordinary rows as arrays, which another process can be sent. ``StatisticTexts`` makes their fields in bulk: a whole block
of rows when the first of them is needed; when there are too many blocks, the oldest is dropped. ``DifferenceTexts``
makes the fields of all other rows, one by one, for any kind of comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.comparison import Comparison
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.rows.columns import METRICS
from msprobe.compare.rows.explanations import Reasons
from msprobe.compare.rows.levels import LEVEL_NAMES
from msprobe.compare.table.float_pairs import float_texts
from msprobe.compare.workers.fork_channel import Arrays
from msprobe.core.store.record_walk import Leaf
from msprobe.core.tensors.statistics import STATISTIC_NAMES, STATISTICS
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.metrics.tensor_cells import UNSUPPORTED
from msprobe.numerics.verdict import Bools, Floats, Ints, Judged, Level, Measured, RowKind
from msprobe.trace.leaves import bounded, describe
from msprobe.visualize.values.row_verdicts import verdict_text
from msprobe.visualize.values.value_json import STATISTIC_FIELDS, quoted

_JUDGED_ARRAYS = ("level", "kind", "times", "tolerance")
DIFFERENCES = ",".join(f'"{name}":"%s"' for name in METRICS[Mode.STATISTICS])
CONSISTENT = '"Requires_grad Consistent":"%s"'
DIGITS = 6
ROWS_PER_BLOCK = 1024
MAX_BLOCKS = 32
_COUNT = len(STATISTIC_NAMES)
_statistics_of = itemgetter(*STATISTIC_NAMES)
_FLOATS = {float}
_TARGET_FIELDS = f"{DIFFERENCES},{CONSISTENT},%s"
_PASSES = verdict_text(Level.PASS, ())
_Values = NDArray[np.float64]
Texts = tuple[str, str]
"""JSON fields of one row, without braces: the statistics of one side, and for the target all that comparing adds.

The second text ends with a comma where the verdict has to follow.
"""
_METRIC_FIELDS = ",".join(f'"{name}":"%s"' for name in METRICS[Mode.TENSOR])
_NO_DIFFERENCES = DIFFERENCES % (("N/A",) * len(METRICS[Mode.STATISTICS]))
_MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class StatisticPairs:
    """The pairs of tensors of a comparison whose statistics are all floats.

    Attributes:
        rows: numbers of the rows, ascending.
        values: shape (rows, 2, statistics): the statistics of the target, then those of the golden run.
        consistent: whether both sides say the same about ``requires_grad``.
        judged: the verdicts of these rows; ``level`` is -1 where other rules than the default policy decide.
        measured: the differences of these rows.
    """

    rows: Ints
    values: Floats
    consistent: Bools
    judged: Judged
    measured: Measured

    def arrays(self) -> Arrays:
        """Return all arrays by name, to be sent to another process."""
        judged = {f"judged.{name}": getattr(self.judged, name) for name in _JUDGED_ARRAYS}
        measured = {f"measured.{field.name}": getattr(self.measured, field.name) for field in fields(Measured)}
        return {"rows": self.rows, "values": self.values, "consistent": self.consistent, **judged, **measured}


def received_pairs(arrays: Arrays) -> StatisticPairs:
    """Return the pairs that another process sent as arrays."""
    judged = {name: arrays[f"judged.{name}"] for name in _JUDGED_ARRAYS}
    measured = Measured(**{field.name: arrays[f"measured.{field.name}"] for field in fields(Measured)})
    return StatisticPairs(arrays["rows"], arrays["values"], arrays["consistent"], Judged(noise=0.0, **judged), measured)


def statistic_pairs(comparison: Comparison) -> StatisticPairs:
    """Return the pairs of the ordinary rows of a comparison of statistics; none of any other comparison."""
    pairs = comparison.table.float_pairs
    rows = pairs.rows if comparison.mode is Mode.STATISTICS else pairs.rows[:0]
    values = pairs.values[: len(rows)].reshape(len(rows), 2, len(STATISTICS))
    same_flag = [left.get("requires_grad") == right.get("requires_grad") for left, right in pairs.kind_samples]
    judged = comparison.judged.sliced(rows)
    if comparison.policy is Policy.REFERENCE:
        judged = replace(judged, level=np.full(len(rows), -1))
    consistent = np.array(same_flag, np.bool_)[pairs.kinds[: len(rows)]]
    return StatisticPairs(rows, values, consistent, judged, comparison.measured.sliced(rows))


def own_numbers(values: Sequence[Leaf]) -> list[str | None]:
    """Return the JSON fields of the statistics of each value; None for other values than tensors of finite floats."""
    positions: list[int] = []
    statistics: list[tuple[Any, ...]] = []
    for position, (_, _, raw) in enumerate(values):
        if type(raw) is dict and STATISTIC_NAMES[-1] in raw:
            try:
                statistics.append(_statistics_of(raw))
            except KeyError:
                continue
            positions.append(position)
    if set(map(type, chain.from_iterable(statistics))) - _FLOATS:
        kept = [number for number, numbers in enumerate(statistics) if set(map(type, numbers)) == _FLOATS]
        positions, statistics = [positions[number] for number in kept], [statistics[number] for number in kept]
    table = np.fromiter(chain.from_iterable(statistics), np.float64, _COUNT * len(statistics)).reshape(-1, _COUNT)
    texts: list[str | None] = [None] * len(values)
    finite = np.isfinite(table).all(axis=1).tolist()
    for position, usable, text in zip(positions, finite, _statistic_fields(table), strict=True):
        if usable:
            texts[position] = text
    return texts


class StatisticTexts:
    """The texts of one side of ordinary rows, by row number."""

    def __init__(self, pairs: StatisticPairs, *, golden: bool = False) -> None:
        self._pairs, self._golden = pairs, golden
        self._reasons = Reasons(pairs.measured, pairs.judged)
        self._blocks: dict[int, dict[int, Texts]] = {}

    def of_row(self, row: int) -> Texts | None:
        """Return the texts of a row; None for a row that is no pair of tensors with finite statistics."""
        number = row // ROWS_PER_BLOCK
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= MAX_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = self.block(number)
        return block.get(row)

    def block(self, number: int) -> dict[int, Texts]:
        """Return the texts of the ordinary ones among ``ROWS_PER_BLOCK`` rows, by row number."""
        start = number * ROWS_PER_BLOCK
        first, last = np.searchsorted(self._pairs.rows, (start, start + ROWS_PER_BLOCK)).tolist()
        if first == last:
            return {}
        values = self._pairs.values[first:last]
        target, golden = values[:, 0], values[:, 1]
        with np.errstate(all="ignore"):
            difference = target - golden
        usable = np.isfinite(values).all(axis=(1, 2)) & np.isfinite(difference).all(axis=1)
        numbers = _statistic_fields(golden if self._golden else target)
        added: Iterable[str] = [""] * len(values)
        if not self._golden:
            further = self._pairs.consistent[first:last].tolist(), self._verdicts(first, last)
            published = bool(self._pairs.judged.level[first] < 0)
            columns = _difference_columns(difference, golden, published)
            added = map(_TARGET_FIELDS.__mod__, zip(*columns, *further, strict=True))
        rows = zip(self._pairs.rows[first:last].tolist(), usable.tolist(), numbers, added, strict=True)
        return {row: (text, more) for row, finite, text, more in rows if finite}

    def _verdicts(self, first: int, last: int) -> list[str]:
        """Return the JSON fields of each verdict; "" where the message needs more than numbers."""
        judged = self._pairs.judged
        levels = judged.level[first:last]
        texts = [_PASSES if passes else "" for passes in (levels == Level.PASS).tolist()]
        by_value = ((levels > 0) & (judged.kind[first:last] == RowKind.VALUE)).nonzero()[0]
        reasons = self._reasons.of_values(by_value + first)
        for index, level, reason in zip(by_value.tolist(), levels[by_value].tolist(), reasons, strict=True):
            texts[index] = verdict_text(level, (f"{LEVEL_NAMES[level]}: {reason}",))
        return texts


def _statistic_fields(values: _Values) -> Iterable[str]:
    """Return the JSON fields of each line of ``values``, shape (rows, statistics)."""
    return map(STATISTIC_FIELDS.__mod__, zip(*map(float_texts, values.T), strict=True))


def _difference_columns(difference: _Values, golden: _Values, published: bool) -> list[list[str]]:
    """Return the texts of differences and relative differences, column by column.

    Args:
        difference: target - golden, in units of the data, shape (rows, statistics).
        golden: shape (rows, statistics). The relative difference is |difference / golden| in percent.
        published: whether percentages are rounded as in the published format.
    """
    with np.errstate(all="ignore"):
        percent = _rounded(np.abs(difference / golden) * 100, published)
    return [*map(_column_texts, difference.T), *map(_percent_texts, percent.T, golden.T)]


def _rounded(percent: _Values, published: bool) -> _Values:
    """Return percentages with six digits behind the point; small ones with six significant digits, unless the format
    is the published one."""
    rounded = np.round(percent, DIGITS)
    if published:
        return rounded
    small = (percent > 0.0) & (percent < 0.1)
    if not small.any():
        return rounded
    with np.errstate(all="ignore"):
        up = np.power(10.0, np.clip(DIGITS - 1 - np.floor(np.log10(percent)), DIGITS, 300))
        return np.where(small, np.rint(percent * up) / up, rounded)


def _column_texts(numbers: _Values) -> list[str]:
    return float_texts(numbers) if numbers.any() else ["0.0"] * len(numbers)


def _percent_texts(percent: _Values, golden: _Values) -> list[str]:
    """Return the texts of percentages; ``N/A`` where the golden value is 0."""
    finite = np.isfinite(percent)
    texts = [text + "%" for text in _column_texts(np.where(finite, percent, 0.0))]
    for row in (~finite).nonzero()[0].tolist():
        texts[row] = "inf%"
    for row in (golden == 0.0).nonzero()[0].tolist():
        texts[row] = "N/A"
    return texts


class DifferenceTexts:
    """Makes the fields of the rows of a table, one by one; ``StatisticTexts`` has those of ordinary statistics."""

    def __init__(self, comparison: Comparison) -> None:
        self._mode, self._table, self._tensors = comparison.mode, comparison.table, comparison.tensors
        self._published = comparison.policy is Policy.REFERENCE
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
            pairs = [_difference_texts(*cells, published=self._published) for cells in zip(*key, strict=True)]
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


def _difference_texts(target: Cell, golden: Cell, *, published: bool) -> tuple[str, str]:
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
    rounded = float(_rounded(np.array([relative]), published)[0])
    return str(difference), f"{rounded}%" if relative == relative else "Nan"


def _escaped(cell: Cell) -> str:
    return quoted(str(cell))[1:-1]
