"""The columns that explain a verdict, after the documented ones.

``Times tolerance`` is the difference of the row in units of what it was allowed, ``Tolerance`` what it was allowed,
relative to the scale of its tensor. For whole tensors: ``ULP distance``, ``Allclose``, the index of the first element
that differs, and of the worst one with both values (see ``msprobe.numerics.metrics.elements``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.cells import Tensors
from msprobe.compare.mode import Mode
from msprobe.compare.plain import float_texts
from msprobe.compare.table import LeafTable
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Floats, Judged, Kind

if TYPE_CHECKING:
    from msprobe.numerics.metrics.elements import ElementDifference

_JUDGED = ("Tolerance", "Times tolerance")
_ELEMENTS = ("ULP distance", "Allclose", "First different index", "Worst element")
_NOTHING = ("N/A",) * len(_ELEMENTS)


def explained_columns(mode: Mode) -> tuple[str, ...]:
    """Titles; checksums differ or not, and need none."""
    return () if mode is Mode.CHECKSUM else (*_JUDGED, *_ELEMENTS) if mode is Mode.TENSOR else _JUDGED


class Explained:
    """Makes the cells of one comparison, for a range of entries at a time."""

    def __init__(self, mode: Mode, table: LeafTable, judged: Judged, tensors: Tensors) -> None:
        self._mode, self._table, self._judged = mode, table, judged
        self._tensors = tensors or []

    def columns(self, first: int, last: int) -> list[Sequence[Cell]]:
        """One sequence per title of ``explained_columns``."""
        if self._mode is Mode.CHECKSUM:
            return []
        start, stop = self._range(first, last)
        times = self._judged.times[start:stop]
        meaningless = (self._judged.kind[start:stop] > Kind.VALUE) | np.isinf(times)
        unchecked = self._judged.kind[start:stop] == Kind.UNCHECKED
        found: list[Sequence[Cell]] = [
            self._shown(values[start:stop], meaningless | unchecked)
            for values in (self._judged.tolerance, self._judged.times)
        ]
        if self._mode is Mode.TENSOR:
            found += zip(*map(self._elements, range(start, stop)), strict=True) if start < stop else [()] * 4
        return found

    def custom(self, first: int, last: int, count: int) -> list[Sequence[Cell]]:
        """The cells of ``count`` custom metrics."""
        if not count:
            return []
        from msprobe.numerics.metrics.custom import FAILED  # only where whole tensors are compared

        start, stop = self._range(first, last)
        nothing: tuple[Cell, ...] = (FAILED,) * count
        rows = [(difference and difference.custom) or nothing for difference in self._tensors[start:stop]]
        return list(zip(*rows, strict=True)) if rows else [()] * count

    def notes(self, start: int, stop: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Rows with a custom metric that failed, and why."""
        for row, difference in enumerate(self._tensors[start:stop], start):
            if difference is not None and difference.notes:
                yield row, difference.notes

    def _range(self, first: int, last: int) -> tuple[int, int]:
        return int(self._table.starts[first]), int(self._table.starts[last])

    def _shown(self, values: Floats, meaningless: NDArray[np.bool_]) -> list[str]:
        texts = ["0"] * len(values)
        for at in meaningless.nonzero()[0].tolist():
            texts[at] = "N/A"
        wanted = ((values != 0.0) & ~meaningless).nonzero()[0]
        distinct, places = np.unique(_four_digits(values[wanted]), return_inverse=True)
        known = float_texts(distinct)
        for at, place in zip(wanted.tolist(), places.tolist(), strict=True):
            texts[at] = known[place]
        return texts

    def _elements(self, row: int) -> tuple[Cell, ...]:
        difference = self._tensors[row]
        found = difference.elements if difference is not None else None
        return _NOTHING if found is None else _cells(found)


def _four_digits(values: Floats) -> Floats:
    """Rounded to four significant digits, so that they are short to read."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        digits = 3.0 - np.floor(np.log10(np.abs(values)))
        up, down = np.power(10.0, np.clip(digits, 0, 300)), np.power(10.0, np.clip(-digits, 0, 300))
        rounded = np.rint(values * up / down) * down / up
    return np.where(np.isfinite(rounded), rounded, values)


def _cells(found: ElementDifference) -> tuple[Cell, ...]:
    ulps: Cell = "unsupported" if found.ulps is None else found.ulps
    if found.first is None or found.worst is None:
        return ulps, str(found.close), "N/A", "N/A"
    worst = f"{list(found.worst)}: {found.target!r} against {found.golden!r}"
    return ulps, str(found.close), str(list(found.first)), worst
