"""The columns that explain a verdict, after the documented ones.

``Times tolerance`` is the difference of the row in units of what it was allowed, ``Tolerance`` what it was allowed,
relative to the scale of its tensor. For whole tensors: ``ULP distance``, ``Allclose``, the index of the first element
that differs, and of the worst one with both values (see ``msprobe.numerics.metrics.elements``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.cells import Tensors
from msprobe.compare.columns import FLOAT, INTEGER, NumberColumn, NumberWords
from msprobe.compare.mode import Mode
from msprobe.compare.table import LeafTable
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Floats, Judged, Kind

if TYPE_CHECKING:
    from msprobe.numerics.metrics.elements import ElementDifference

_JUDGED = ("Tolerance", "Times tolerance")
_ELEMENTS = ("ULP distance", "Allclose", "First different index", "Worst element")
_NOTHING = ("N/A",) * len(_ELEMENTS)


def explained_columns(mode: Mode) -> tuple[str, ...]:
    """Return the titles for a mode; checksums differ or not, and need none."""
    return () if mode is Mode.CHECKSUM else (*_JUDGED, *_ELEMENTS) if mode is Mode.TENSOR else _JUDGED


class Explained:
    """Makes the columns of one comparison, for a range of rows at a time."""

    def __init__(self, mode: Mode, table: LeafTable, judged: Judged, tensors: Tensors) -> None:
        self._mode, self._table, self._judged = mode, table, judged
        self._tensors = tensors or []

    def columns(self, start: int, stop: int, words: NumberWords) -> list[NumberColumn]:
        """Return one column per title of ``explained_columns`` for the rows ``start`` to ``stop``."""
        if self._mode is Mode.CHECKSUM:
            return []
        kinds, times = self._judged.kind[start:stop], self._judged.times[start:stop]
        meaningless = (kinds > Kind.VALUE) | (kinds == Kind.UNCHECKED) | np.isinf(times)
        columns = [
            _judged_column(values[start:stop], meaningless, words)
            for values in (self._judged.tolerance, self._judged.times)
        ]
        if self._mode is Mode.TENSOR:
            elements = list(map(self._elements, range(start, stop)))
            by_column = zip(*elements, strict=True) if elements else [()] * len(_ELEMENTS)
            columns += [words.column(cells) for cells in by_column]
        return columns

    def custom(self, start: int, stop: int, count: int, words: NumberWords) -> list[NumberColumn]:
        """Return the columns of ``count`` custom metrics for the rows ``start`` to ``stop``."""
        if not count:
            return []
        from msprobe.numerics.metrics.custom import FAILED  # only where whole tensors are compared

        failed: tuple[Cell, ...] = (FAILED,) * count
        rows = [(difference and difference.custom) or failed for difference in self._tensors[start:stop]]
        return [words.column(cells) for cells in (zip(*rows, strict=True) if rows else [()] * count)]

    def notes(self, start: int, stop: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the rows with a custom metric that failed, and why."""
        for row, difference in enumerate(self._tensors[start:stop], start):
            if difference is not None and difference.notes:
                yield row, difference.notes

    def _elements(self, row: int) -> tuple[Cell, ...]:
        difference = self._tensors[row]
        elements = difference.elements if difference is not None else None
        return _NOTHING if elements is None else _element_cells(elements)


def _judged_column(values: Floats, meaningless: NDArray[np.bool_], words: NumberWords) -> NumberColumn:
    """Return values, one per row, with four digits; 0 is an integer, and meaningless ones are words."""
    shown = np.where(meaningless, 0.0, _four_digits(values))
    codes = np.where(values == 0.0, INTEGER, FLOAT)
    if meaningless.any():
        codes[meaningless] = words.code("N/A")
    for row in (~np.isfinite(shown)).nonzero()[0].tolist():
        shown[row], codes[row] = 0.0, words.code(str(float(values[row])))
    return NumberColumn(shown, codes, words.words)


def _four_digits(values: Floats) -> Floats:
    """Return the values rounded to four significant digits, so that they are short to read."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        digits = 3.0 - np.floor(np.log10(np.abs(values)))
        up, down = np.power(10.0, np.clip(digits, 0, 300)), np.power(10.0, np.clip(-digits, 0, 300))
        rounded = np.rint(values * up / down) * down / up
    return np.where(np.isfinite(rounded), rounded, values)


def _element_cells(found: ElementDifference) -> tuple[Cell, ...]:
    ulps: Cell = "unsupported" if found.ulps is None else found.ulps
    if found.first is None or found.worst is None:
        return ulps, str(found.close), "N/A", "N/A"
    worst = f"{list(found.worst)}: {found.target!r} against {found.golden!r}"
    return ulps, str(found.close), str(list(found.first)), worst
