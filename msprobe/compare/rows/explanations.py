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
from msprobe.core.store.record_walk import PARAMETER_GRAD, Leaf, is_tensor
from msprobe.numerics.metrics.statistics import Cell
from msprobe.numerics.verdict import Floats, Ints, Judged, Measured, Role, RowKind

if TYPE_CHECKING:
    from msprobe.numerics.metrics.elements import ElementDifference

_SHOWN = 60
_PARTS = ("largest element", "mean", "norm", "the order of the elements (projection)")
_MORE_THAN_ROUNDING = ", more than rounding and its inputs explain"
_MORE_THAN_RERUNS = ", more than between the reruns"
_UNCHECKED = "values are missing on a side, or hold other requests too, so this row could not be checked"
_FIXED = {
    RowKind.UNINITIALISED: "memory nobody has written yet; its content means nothing",
    RowKind.WITHOUT_EFFECT: "another input, it has no effect: all results of the call agree, or it says how to compute",
    RowKind.ACCEPTED: "an accepted difference",
    RowKind.FOLLOWS_ACCEPTED: "follows from an accepted difference",
    RowKind.HIDDEN_BY_ACCEPTED: "follows from an accepted difference, which is too large to see another one here",
    RowKind.NON_FINITE: "NaN or infinity where the other run has none or another one",
    RowKind.COPIES_DIFFER: "the ranks hold copies of it that have come apart",
    RowKind.NOT_ADDED: "the ranks hold partial sums of it, and go on with them before they are added",
    RowKind.NOT_UPDATED: "it is what it was in the step before, while the golden run has updated it",
    RowKind.MISSING_IN_TARGET: "no value (null) in the target, a value in the golden run",
    RowKind.MISSING_IN_GOLDEN: "no value (null) in the golden run, a value in the target",
}
_LACKING: dict[int, tuple[str, str]] = {
    RowKind.MISSING_IN_TARGET: ("target", "golden run"),
    RowKind.MISSING_IN_GOLDEN: ("golden run", "target"),
}


def no_gradient(kind: int) -> str:
    """Return the sentence for a gradient that is null on one side."""
    return f"no gradient in the {_LACKING[kind][0]} (null), one in the {_LACKING[kind][1]}"


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
        tails = np.where(result, _MORE_THAN_ROUNDING, "")
        if judged.by_reruns.size:
            tails = np.where(judged.by_reruns[rows], _MORE_THAN_RERUNS, tails)
        self._columns: tuple[NDArray[Any], ...] = worst, part, times, tolerance, tails

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
            first, second = _arguments(left, right)
            return f"argument {first} in the target, {second} in the golden run"
        if kind == RowKind.UNCHECKED and not (is_tensor(left) and is_tensor(right)):
            first, second = _arguments(left, right)
            return f"the sides tell this argument differently ({first} in the target, {second} in the golden run)"
        if kind in _LACKING and ours.slot == PARAMETER_GRAD:
            return no_gradient(kind)
        return _FIXED.get(RowKind(kind), _UNCHECKED)

    def of_values(self, rows: Ints) -> list[str]:
        """Return the sentences of many rows of the kind ``VALUE``; ``rows`` are their numbers."""
        at = rows - self._first
        return list(map(_of_value, *(one[at].tolist() for one in self._columns)))


def _of_value(worst: float, part: int, times: float, tolerance: float, tail: str) -> str:
    if worst == math.inf:
        return "the checksums differ"
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


def _arguments(left: Any, right: Any) -> tuple[str, str]:
    """Return two arguments as texts that differ: by their values, with the types only where the values look alike."""
    values = [side["value"] if isinstance(side, dict) and "value" in side else side for side in (left, right)]
    if all(not isinstance(value, dict) and value is not None for value in values):
        texts = _cut(str(values[0])), _cut(str(values[1]))
        if texts[0] != texts[1]:
            return texts
        types = [str(side["type"]) if isinstance(side, dict) and "type" in side else "" for side in (left, right)]
        if types[0] != types[1] and all(types):
            return f"{texts[0]} ({types[0]})", f"{texts[1]} ({types[1]})"
    return _argument(left, right), _argument(right, left)


def _argument(raw: Any, other: Any) -> str:
    if isinstance(raw, dict):
        for key in ("type", "value", "group_ranks", "format", "p2p", "requires_grad"):
            if key in raw and (not isinstance(other, dict) or other.get(key) != raw[key]):
                return _cut(f"{key} {raw[key]}" if key not in ("value", "type") else str(raw[key]))
    return _cut(str(raw.get("value", raw) if isinstance(raw, dict) else raw))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


GOLDEN_STACKS = "Bench_Stack_Info"
"""The title of the stacks of the golden run: of calls that it alone makes, or makes in another line."""
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
