"""The statistics of paired tensors and their differences as JSON fields, many rows at once.

Nearly every row of a large graph is a pair of tensors whose statistics are all finite. Their texts are made in bulk: a
block of rows when the first of them is asked for. A block is dropped after texts of many other blocks were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.columns import METRICS
from msprobe.compare.items import Leaf
from msprobe.compare.mode import Mode
from msprobe.compare.plain import float_texts
from msprobe.compare.reasons import Reasons
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Kind, Level
from msprobe.visualize.row_verdicts import LEVELS, verdict_text
from msprobe.visualize.statistic_pairs import StatisticPairs
from msprobe.visualize.value_text import STATISTIC_FIELDS

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
            added = map(_TARGET_FIELDS.__mod__, zip(*_difference_columns(difference, golden), *further, strict=True))
        rows = zip(self._pairs.rows[first:last].tolist(), usable.tolist(), numbers, added, strict=True)
        return {row: (text, more) for row, finite, text, more in rows if finite}

    def _verdicts(self, first: int, last: int) -> list[str]:
        """Return the JSON fields of each verdict; "" where the message needs more than numbers."""
        judged = self._pairs.judged
        levels = judged.level[first:last]
        texts = [_PASSES if passes else "" for passes in (levels == Level.PASS).tolist()]
        by_value = ((levels > 0) & (judged.kind[first:last] == Kind.VALUE)).nonzero()[0]
        reasons = self._reasons.of_values(by_value + first)
        for index, level, reason in zip(by_value.tolist(), levels[by_value].tolist(), reasons, strict=True):
            texts[index] = verdict_text(level, (f"{LEVELS[level]}: {reason}",))
        return texts


def _statistic_fields(values: _Values) -> Iterable[str]:
    """Return the JSON fields of each line of ``values``, shape (rows, statistics)."""
    return map(STATISTIC_FIELDS.__mod__, zip(*map(float_texts, values.T), strict=True))


def _difference_columns(difference: _Values, golden: _Values) -> list[list[str]]:
    """Return the texts of differences and relative differences, column by column.

    Args:
        difference: target - golden, in units of the data, shape (rows, statistics).
        golden: shape (rows, statistics). The relative difference is |difference / golden| in percent.
    """
    with np.errstate(all="ignore"):
        percent = np.round(np.abs(difference / golden) * 100, DIGITS)
    return [*map(_column_texts, difference.T), *map(_percent_texts, percent.T, golden.T)]


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
