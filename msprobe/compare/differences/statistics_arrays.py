"""The recorded statistics of rows of a table, and what follows from dtypes and shapes, as arrays.

``statistics`` and ``properties`` return the numbers of any rows. ``projections_apart`` has the differences of the
order-sensitive statistic. ``exact_integer_differences`` subtracts integers beyond 2^53, whose neighbours are equal in
float64. ``largest_inputs`` finds the largest tensor given to a call: the terms of the sums that the call makes.
"""

from __future__ import annotations

import math
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.table.float_pairs import COUNT
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import INPUT, is_tensor
from msprobe.core.tensors.projection import EXPANDED, KEY
from msprobe.core.tensors.statistics import NORM, NORM_COLUMN, STATISTIC_NAMES, ToleranceOf, columns_of, recorded_number
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Bools, Floats, Ints
from msprobe.trace.leaves import UNORDERED, as_float, element_count, longest_axis

_Matrix = tuple[Floats, NDArray[np.bool_]]
_NUMBERS = {float, int}


def statistics(table: LeafTable, rows: NDArray[np.int64]) -> tuple[_Matrix, _Matrix]:
    """Return the statistics of target and golden in these rows.

    Each side is a pair of arrays of shape (rows, statistics): the values, NaN where absent, and whether they are
    absent, as what is no number is, too.
    """
    plain, positions = _plain(table, rows)
    values = np.zeros((len(rows), 2, COUNT))
    absent = np.zeros((len(rows), 2, COUNT), np.bool_)
    values[plain] = table.float_pairs.values[positions]
    others = rows[~plain].tolist()
    if others:
        for number, side in enumerate((table.target, table.golden)):
            values[~plain, number], absent[~plain, number] = _matrix([side[row][2] for row in others])
    return (values[:, 0], absent[:, 0]), (values[:, 1], absent[:, 1])


def properties(table: LeafTable, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Return unit roundoff, element count and longest axis of the golden tensors, one value each per row."""
    plain, positions = _plain(table, rows)
    samples = table.float_pairs.kind_samples
    others = [table.golden[row][2] for row in rows[~plain].tolist()]
    raws = [golden for _, golden in samples] + others
    described = np.empty(len(rows), np.int64)
    described[plain] = table.float_pairs.kinds[positions]
    described[~plain] = np.arange(len(samples), len(raws))
    dtypes = [str(raw["dtype"]) for raw in raws]
    roundoff_of = {dtype: unit_roundoff(dtype) for dtype in set(dtypes)}
    roundoff = np.array([roundoff_of[dtype] for dtype in dtypes])
    numel = np.array([element_count(raw) for raw in raws])
    longest = np.array([longest_axis(raw) for raw in raws], np.float64)
    return roundoff[described], numel[described], longest[described]


def _plain(table: LeafTable, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which of these rows (ascending) are in ``table.float_pairs``, and the positions of those there."""
    plain = table.float_pairs.rows
    positions = np.searchsorted(plain, rows)
    inside = positions < len(plain)
    inside[inside] = plain[positions[inside]] == rows[inside]
    return inside, positions[inside]


def _matrix(raws: list[Any]) -> _Matrix:
    """Return the statistics of every record, NaN where absent, and where they are absent."""
    shape = len(raws), COUNT
    try:
        recorded = list(map(itemgetter(*STATISTIC_NAMES), raws))
        if set(map(type, chain.from_iterable(recorded))) <= _NUMBERS:
            return np.array(recorded, np.float64).reshape(shape), np.zeros(shape, np.bool_)
    except (KeyError, OverflowError):
        pass
    numbers = [[_number(raw, name) for name in STATISTIC_NAMES] for raw in raws]
    values = np.array([[math.nan if value is None else value for value in line] for line in numbers]).reshape(shape)
    return values, np.array([[value is None for value in line] for line in numbers], np.bool_).reshape(shape)


def _number(raw: dict[str, Any], name: str) -> float | None:
    """Return a recorded statistic; None where there is none, and for what is none in a damaged record."""
    try:
        return recorded_number(raw.get(name), raw.get("dtype"))
    except ValueError:
        return None


class ProjectionsApart(NamedTuple):
    """How the projections of some rows differ, one value per row.

    Attributes:
        difference: |difference| in data units; 0 where a side has none or one that is not finite, and where the shapes
            differ: elements may then lie in another order.
        odd: whether one side alone is finite; both have one.
        one_sided: whether one side alone has one, although the other tensor can have one too: it was neither put
            together from several, nor is its value null and it so large that it may be expanded from fewer elements.
    """

    difference: Floats
    odd: Bools
    one_sided: Bools


def projections_apart(table: LeafTable, rows: NDArray[np.int64]) -> ProjectionsApart:
    """Return how the projections of these rows differ."""
    numbers = rows.tolist()
    sides = [[_number(leaves[row][2], KEY) for row in numbers] for leaves in (table.target, table.golden)]
    nothing = np.zeros(len(numbers), np.bool_)
    if all(values.count(None) == len(values) for values in sides):
        return ProjectionsApart(np.zeros(len(numbers)), nothing, nothing)
    left_absent, right_absent = (np.array([value is None for value in values], np.bool_) for values in sides)
    left, right = map(_floats, sides)
    with np.errstate(invalid="ignore"):
        apart = np.abs(left - right)
    odd = (np.isfinite(left) != np.isfinite(right)) & ~left_absent & ~right_absent
    same_shape = np.array([table.target[row][2]["shape"] == table.golden[row][2]["shape"] for row in numbers], np.bool_)
    apart = np.where(np.isfinite(apart) & same_shape, apart, 0.0)
    one_sided = left_absent != right_absent
    for position in one_sided.nonzero()[0].tolist():
        leaves = table.golden if right_absent[position] else table.target
        one_sided[position] = not _can_lack_order(leaves[numbers[position]][2])
    return ProjectionsApart(apart, odd, one_sided)


def _can_lack_order(raw: dict[str, Any]) -> bool:
    """Return whether a tensor without projection can have none."""
    return UNORDERED in raw or (KEY in raw and element_count(raw) >= EXPANDED)


def _floats(values: list[Any]) -> Floats:
    return np.array(list(map(as_float, values)), np.float64)


_EXACT = float(2**53)
_ELEMENTS = [STATISTIC_NAMES[column] for column in columns_of(ToleranceOf.ELEMENT)]


def exact_integer_differences(table: LeafTable, rows: Ints, largest: Floats, apart: Floats) -> None:
    """Set ``apart``, how far the extremes of ``rows`` differ, where rounding to float64 hid it.

    ``largest`` are the largest sizes of an extreme on either side; all in data units, one value per row.
    """
    for position in ((largest >= _EXACT) & (apart == 0.0)).nonzero()[0].tolist():
        target, golden = table.target[rows[position]], table.golden[rows[position]]
        if target is not None and golden is not None:
            apart[position] = max(_apart(target.raw.get(name), golden.raw.get(name)) for name in _ELEMENTS)


def _apart(target: Any, golden: Any) -> float:
    return float(abs(target - golden)) if type(target) is type(golden) is int else 0.0


def largest_inputs(table: LeafTable, entries: Bools, inputs: Bools) -> Floats:
    """Return ``largest_input`` of the entries that ``entries`` marks, shape (entries, 2); NaN for all other entries.

    Args:
        table: the paired leaves.
        entries: one bool per entry.
        inputs: one bool per row; it marks the inputs.
    """
    result = np.full((len(table.entries), 2), np.nan)
    pairs, entry = table.float_pairs, table.entry_of_row()
    others = inputs & entries[entry]
    others[pairs.rows] = False
    plain = entries & np.array(table.alike, np.bool_)
    plain[[entry[row] for row in others.nonzero()[0].tolist() if _is_tensor(table, row)]] = False
    for number in (entries & ~plain).nonzero()[0].tolist():
        result[number] = largest_input(table, number)
    result[plain] = 0.0
    counts = np.array([element_count(golden) for _, golden in pairs.kind_samples])[pairs.kinds]
    selected = inputs[pairs.rows] & plain[entry[pairs.rows]] & (counts > 0.0)
    rows, counts, norms = pairs.rows[selected], counts[selected], pairs.values[selected, 1, NORM_COLUMN]
    rms = np.where(np.isfinite(norms), norms, 0.0) / np.sqrt(np.maximum(counts, 1.0))
    last_wins = np.lexsort((-rows, counts))
    result[entry[rows[last_wins]]] = np.stack((rms, counts), axis=1)[last_wins]
    return result


def _is_tensor(table: LeafTable, row: int) -> bool:
    leaf = table.golden[row]
    return leaf is not None and is_tensor(leaf[2])


def largest_input(table: LeafTable, entry: int) -> tuple[float, float]:
    """Return root mean square (data units) and element count of the largest tensor given to the golden call, or to that
    of the target where it alone makes it; zeros when there is none."""
    result = (0.0, 0.0)
    for row in range(int(table.starts[entry]), int(table.starts[entry + 1])):
        leaf = table.golden[row] or table.target[row]
        if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw):
            count = element_count(leaf.raw)
            if count > result[1]:
                result = (_rms(leaf.raw), count)
    return result


def _rms(raw: Any) -> float:
    norm = as_float(raw.get(NORM.name))
    return norm / math.sqrt(max(element_count(raw), 1.0)) if math.isfinite(norm) else 0.0
