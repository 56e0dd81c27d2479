"""Numbers for every row of a table: how far the two leaves are apart, before any tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.dependencies import dependencies
from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.items import element_count
from msprobe.compare.natural_scale import Vanished, natural_scales
from msprobe.compare.row_facts import RowFacts, tensor_kind
from msprobe.compare.table import LeafTable
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats, Kind, Measured

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference

Difference: TypeAlias = "TensorDifference | None"


def measure(
    table: LeafTable,
    facts: RowFacts,
    exemptions: Sequence[Exemption] = (),
    *,
    tensors: Sequence[Difference] | None = None,
    vanished: Vanished | None = None,
) -> Measured:
    """Measure all rows from their ``facts``, whose ``kind`` changes; ``tensors`` holds whole-tensor differences by row.

    ``exemptions`` say which kinds are none and which rows mean nothing.

    ``vanished`` is what ``natural_scales`` learned in the steps before; it grows.
    """
    rows = table.rows
    measured = Measured(
        role=facts.role,
        kind=facts.kind,
        element=np.zeros(rows),
        mean=np.zeros(rows),
        norm=np.zeros(rows),
        projection=np.zeros(rows),
        roundoff=np.full(rows, 2.0**-24),
        numel=np.ones(rows),
        reduction=np.ones(rows),
        rounded=np.zeros(rows, np.bool_),
        whole=np.zeros(rows, np.bool_),
        row_starts=table.starts,
        depends=dependencies(table),
    )
    floors = np.zeros(rows)
    if facts.numeric.size:
        floors[facts.numeric] = _fill_statistics(measured, table, facts, {} if vanished is None else vanished)
    for exemption in exemptions:
        exemption.relax(table, measured.kind)
    if tensors is not None:
        _fill_tensors(measured, table, tensors, floors)
    for exemption in exemptions:
        _excuse(measured, table, exemption.excused(table, measured))
    return measured


def _excuse(measured: Measured, table: LeafTable, rows: Sequence[int]) -> None:
    """What nobody has written cannot be checked."""
    if not rows:
        return
    for values in (measured.element, measured.mean, measured.norm, measured.projection):
        values[list(rows)] = 0.0
    for row in rows:
        ours, theirs = table.target[row], table.golden[row]
        kind = Kind.NONE if ours is None or theirs is None else tensor_kind(theirs, ours.raw, theirs.raw)
        measured.kind[row] = kind or Kind.UNINITIALISED


def _fill_statistics(measured: Measured, table: LeafTable, facts: RowFacts, vanished: Vanished) -> Floats:
    """Measure rows by their statistics; returns the least root mean square each is judged by."""
    rows, numel = facts.numeric, facts.numel
    measured.roundoff[rows] = facts.roundoff
    measured.numel[rows] = numel
    measured.rounded[rows] = facts.rounded
    floor = natural_scales(measured, table, facts, vanished)
    largest, norm = facts.size.T
    elements = np.maximum(numel, 1.0)
    rms = np.where(norm > 0.0, norm / np.sqrt(elements), largest)
    scale = np.maximum(largest, floor)
    measured.element[rows] = _ratio(facts.apart[:, 0], scale)
    measured.mean[rows] = _ratio(facts.apart[:, 1], np.maximum(rms, floor))
    measured.norm[rows] = _ratio(facts.apart[:, 2], np.maximum(norm, floor * np.sqrt(elements)))
    measured.projection[rows] = _ratio(facts.apart[:, 3], scale * np.sqrt(elements))
    measured.reduction[rows] = _reductions(table, rows, facts.longest, numel)
    return floor


def _ratio(difference: Floats, scale: Floats) -> Floats:
    return np.where(difference == 0.0, 0.0, difference / np.where(scale > 0.0, scale, 1e-300))


def _reductions(table: LeafTable, rows: NDArray[np.int64], longest: Floats, numel: Floats) -> Floats:
    """A guess at the number of terms behind each element: the longest axis or the elements given per element made."""
    entry = table.entry_of_row()
    given = np.zeros(len(table.entries))
    axis = np.ones(len(table.entries))
    np.maximum.at(given, entry[rows], numel)
    np.maximum.at(axis, entry[rows], longest)
    return np.asarray(np.maximum(axis[entry[rows]], given[entry[rows]] / np.maximum(numel, 1.0)))


def _fill_tensors(measured: Measured, table: LeafTable, tensors: Sequence[Difference], floors: Floats) -> None:
    for row, difference in enumerate(tensors):
        if difference is None:
            continue
        if difference.non_finite:
            measured.kind[row] = Kind.NON_FINITE
        if math.isnan(difference.relative_norm):
            if measured.kind[row] <= Kind.UNCHECKED:
                measured.kind[row] = Kind.UNCHECKED
            continue
        if difference.calibrated and measured.kind[row] == Kind.SHAPE:
            measured.kind[row] = Kind.NONE  # the products have one shape
        leaf = table.golden[row]
        raw = leaf.raw if leaf is not None else {}
        measured.roundoff[row] = unit_roundoff(str(raw.get("dtype", "")))
        count = element_count(raw)
        measured.element[row] = difference.relative_max * _share(difference.largest, floors[row])
        measured.norm[row] = difference.relative_norm * _share(difference.norm, floors[row] * math.sqrt(count))
        measured.mean[row] = measured.projection[row] = 0.0
        measured.whole[row] = True
        measured.numel[row] = count
        if measured.kind[row] == Kind.UNCHECKED:
            measured.kind[row] = Kind.NONE


def _share(own: float, floor: float) -> float:
    """Turns a difference relative to ``own`` into one relative to the larger of both scales."""
    return own / floor if floor > own else 1.0
