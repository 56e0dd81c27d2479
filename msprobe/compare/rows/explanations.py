"""Why a row is not a pass, in one sentence.

The columns that explain a verdict, after the documented ones.

``Times tolerance`` is the difference of the row in units of what it was allowed, ``Tolerance`` what it was allowed,
relative to the scale of its tensor. For whole tensors: ``ULP distance``, ``Allclose``, the index of the first element
that differs, and of the worst one with both values (see ``msprobe.numerics.metrics.elements``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.inputs.mode import Mode
from msprobe.compare.rows.cells import Tensors
from msprobe.compare.rows.columns import FLOAT, INTEGER, NumberColumn, NumberWords
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import Leaf, is_tensor
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Floats, Ints, Judged, Measured, Role, RowKind

if TYPE_CHECKING:
    from msprobe.numerics.metrics.elements import ElementDifference

_SHOWN = 60
_PARTS = ("largest element", "mean", "norm", "the order of the elements (projection)")
_UNCHECKED = "values are missing on a side, so this row could not be checked"
_FIXED = {
    RowKind.UNINITIALISED: "memory nobody has written yet; its content means nothing",
    RowKind.NON_FINITE: "NaN or infinity where the other run has none or another one",
    RowKind.MISSING_IN_TARGET: "no value (null) in the target, a value in the golden run",
    RowKind.MISSING_IN_GOLDEN: "no value (null) in the golden run, a value in the target",
}


class Differences(NamedTuple):
    """What sentences need of ``Measured``: arrays with one value per row."""

    role: Ints
    element: Floats
    mean: Floats
    norm: Floats
    projection: Floats


def differences_of(measured: Measured, rows: slice = slice(None)) -> Differences:
    """Return the differences of some rows, or of all."""
    return Differences(*(getattr(measured, name)[rows] for name in Differences._fields))


class Reasons:
    """Makes the sentences for the rows of one comparison."""

    def __init__(self, differences: Differences | Measured, judged: Judged, rows: slice = slice(None)) -> None:
        """``rows`` are those that will be asked for, if not all."""
        self._first = rows.start or 0
        values = (differences.element, differences.mean, differences.norm, differences.projection)
        parts = np.stack([one[rows] for one in values], axis=1)
        times, tolerance = judged.times[rows], judged.tolerance[rows]
        part = _deciding(parts, times, tolerance)
        worst = np.take_along_axis(parts, part[:, None], axis=1)[:, 0]
        result = differences.role[rows] == Role.RESULT
        self._columns: tuple[NDArray[Any], ...] = worst, part, times, tolerance, result

    def text(self, kind: int, row: int, ours: Leaf | None, theirs: Leaf | None) -> str:
        """Return the sentence for a row of this kind; ``ours`` and ``theirs`` are its leaves."""
        if ours is None or theirs is None:
            return f"only the {'golden' if ours is None else 'target'} run has this value"
        if kind == RowKind.VALUE:
            return _of_value(*(one.item(row - self._first) for one in self._columns))
        left, right = ours.raw, theirs.raw
        if kind == RowKind.SHAPE:
            return f"shape {_field(left, 'shape')} in the target, {_field(right, 'shape')} in the golden run"
        if kind == RowKind.DTYPE:
            return f"dtype {_field(left, 'dtype')} in the target, {_field(right, 'dtype')} in the golden run"
        if kind == RowKind.ARGUMENT:
            return f"argument {_argument(left, right)} in the target, {_argument(right, left)} in the golden run"
        if kind == RowKind.UNCHECKED and not (is_tensor(left) and is_tensor(right)):
            return f"the sides tell this argument differently ({_argument(left, right)}, {_argument(right, left)})"
        return _FIXED.get(RowKind(kind), _UNCHECKED)

    def of_values(self, rows: Ints) -> list[str]:
        """Return the sentences of many rows of the kind ``VALUE``; ``rows`` are their numbers."""
        at = rows - self._first
        return list(map(_of_value, *(one[at].tolist() for one in self._columns)))


def _of_value(worst: float, part: int, times: float, tolerance: float, result: bool) -> str:
    if worst == math.inf:
        return "the checksums differ"
    tail = ", more than rounding and its inputs explain" if result else ""
    allowed = f"{times:.3g} times the {tolerance:.2g} allowed" if tolerance else "where none is allowed"
    return f"{_PARTS[part]} differs by {worst:.3g} of the tensor's scale, {allowed}{tail}"


def _deciding(parts: Floats, times: Floats, tolerance: Floats) -> Ints:
    """Return for each row the part whose difference is ``times`` the ``tolerance``; the largest one where nothing is
    allowed. ``parts`` has shape (rows, parts).
    """
    if not len(parts):
        return np.zeros(0, np.int64)
    with np.errstate(all="ignore"):
        off = np.abs(parts / tolerance[:, None] - times[:, None])
    off = np.nan_to_num(off, nan=np.inf, posinf=np.inf)
    return np.asarray(np.where(np.isfinite(off.min(axis=1)), off.argmin(axis=1), parts.argmax(axis=1)))


def _field(raw: Any, name: str) -> object:
    return raw.get(name) if isinstance(raw, dict) else None


def _argument(raw: Any, other: Any) -> str:
    if isinstance(raw, dict):
        for key in ("type", "value", "group_ranks", "format", "p2p", "requires_grad"):
            if key in raw and (not isinstance(other, dict) or other.get(key) != raw[key]):
                text = f"{key} {raw[key]}" if key not in ("value", "type") else str(raw[key])
                return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    text = str(raw.get("value", raw) if isinstance(raw, dict) else raw)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


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
        meaningless = (kinds > RowKind.VALUE) | (kinds == RowKind.UNCHECKED) | np.isinf(times)
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
        from msprobe.numerics.metrics.user_metrics import FAILED  # only where whole tensors are compared

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
