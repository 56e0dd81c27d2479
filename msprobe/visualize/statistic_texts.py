"""The statistics of paired tensors and their differences as texts, many rows at once.

Nearly every row of a large graph is a pair of tensors with eight finite numbers. Their texts are made in bulk, a block
of rows when the first of them is asked for, and forgotten when many other blocks were asked for since.
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
from msprobe.numerics.verdict import Judged, Kind, Level
from msprobe.visualize.row_verdicts import LEVELS, verdict_text
from msprobe.visualize.statistic_pairs import StatisticPairs

DIFFERENCES = ",".join(f'"{name}":"%s"' for name in METRICS[Mode.STATISTICS])
NUMBERS = '"Max":"%s","Min":"%s","Mean":"%s","Norm":"%s"'
CONSISTENT = '"Requires_grad Consistent":"%s"'
DIGITS = 6
ROWS_AT_ONCE = 1024
KEPT = 32

_four = itemgetter("Max", "Min", "Mean", "Norm")
_FLOATS = {float}
_ADDED = f"{DIFFERENCES},{CONSISTENT},%s"
_PASSES = verdict_text(Level.PASS, ())
_Numbers = NDArray[np.float64]

Texts = tuple[str, str]
"""JSON fields of one row, without braces: the statistics of this side, and for the target all that comparing adds. That
ends with a comma where the verdict has to follow."""


def own_numbers(found: Sequence[Leaf]) -> list[str | None]:
    """The statistics of each value as in ``Texts``; None for what is no tensor with four finite floats."""
    places: list[int] = []
    fours: list[tuple[Any, ...]] = []
    for place, (_, _, raw) in enumerate(found):
        if type(raw) is dict and "Norm" in raw and "Max" in raw and "Min" in raw and "Mean" in raw:
            places.append(place)
            fours.append(_four(raw))
    if set(map(type, chain.from_iterable(fours))) - _FLOATS:
        kept = [number for number, four in enumerate(fours) if set(map(type, four)) == _FLOATS]
        places, fours = [places[number] for number in kept], [fours[number] for number in kept]
    values = np.fromiter(chain.from_iterable(fours), np.float64, 4 * len(fours)).reshape(-1, 4)
    texts: list[str | None] = [None] * len(found)
    for place, good, text in zip(places, np.isfinite(values).all(axis=1).tolist(), _numbers(values), strict=True):
        if good:
            texts[place] = text
    return texts


class StatisticTexts:
    """The texts of one side of ordinary rows, by row number."""

    def __init__(self, pairs: StatisticPairs, *, golden: bool = False) -> None:
        self._pairs, self._golden = pairs, golden
        self._reasons = Reasons(pairs, Judged(pairs.level, pairs.kind, 0.0, pairs.times, pairs.tolerance))
        self._blocks: dict[int, dict[int, Texts]] = {}

    def of(self, row: int) -> Texts | None:
        """None for a row that is no pair of tensors with finite statistics."""
        number = row // ROWS_AT_ONCE
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= KEPT:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[number] = self.block(number)
        return block.get(row)

    def block(self, number: int) -> dict[int, Texts]:
        """Those of ``ROWS_AT_ONCE`` rows, by row."""
        start = number * ROWS_AT_ONCE
        first, last = np.searchsorted(self._pairs.rows, (start, start + ROWS_AT_ONCE)).tolist()
        if first == last:
            return {}
        values = self._pairs.values[first:last]
        with np.errstate(all="ignore"):
            difference = values[:, :4] - values[:, 4:]
        usable = np.isfinite(values).all(axis=1) & np.isfinite(difference).all(axis=1)
        numbers = _numbers(values[:, 4:] if self._golden else values[:, :4])
        added: Iterable[str] = [""] * len(values)
        if not self._golden:
            further = self._pairs.consistent[first:last].tolist(), self._verdicts(first, last)
            added = map(_ADDED.__mod__, zip(*_differences(difference, values[:, 4:]), *further, strict=True))
        rows = zip(self._pairs.rows[first:last].tolist(), usable.tolist(), numbers, added, strict=True)
        return {row: (text, more) for row, good, text, more in rows if good}

    def _verdicts(self, first: int, last: int) -> list[str]:
        """ "" where more than numbers must be known."""
        level = self._pairs.level[first:last]
        texts = [_PASSES if passes else "" for passes in (level == Level.PASS).tolist()]
        told = ((level > 0) & (self._pairs.kind[first:last] == Kind.VALUE)).nonzero()[0]
        for at, one, reason in zip(
            told.tolist(), level[told].tolist(), self._reasons.of_values(told + first), strict=True
        ):
            texts[at] = verdict_text(one, (f"{LEVELS[one]}: {reason}",))
        return texts


def _numbers(values: _Numbers) -> Iterable[str]:
    return map(NUMBERS.__mod__, zip(*[float_texts(values[:, k]) for k in range(4)], strict=True))


def _differences(difference: _Numbers, golden: _Numbers) -> list[list[str]]:
    """Column by column: difference = target - golden, in units of the data; relative = |difference / golden| in
    percent."""
    with np.errstate(all="ignore"):
        percent = np.round(np.abs(difference / golden) * 100, DIGITS)
    columns = [_texts(difference[:, k]) for k in range(4)]
    return columns + [_percents(percent[:, k], golden[:, k]) for k in range(4)]


def _texts(numbers: _Numbers) -> list[str]:
    return float_texts(numbers) if numbers.any() else ["0.0"] * len(numbers)


def _percents(percent: _Numbers, golden: _Numbers) -> list[str]:
    """``N/A`` where the golden value is 0."""
    finite = np.isfinite(percent)
    texts = [text + "%" for text in _texts(np.where(finite, percent, 0.0))]
    for at in (~finite).nonzero()[0].tolist():
        texts[at] = "inf%"
    for at in (golden == 0.0).nonzero()[0].tolist():
        texts[at] = "N/A"
    return texts
