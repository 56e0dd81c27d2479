"""Numbers for every row of a table: how far the two leaves are apart, before any tolerance.

Which entry each entry inherits noise from, beside its own inputs.

The scale of gradients that cancel to nothing.

A bias gradient is a sum over many terms. Where the sum is zero by mathematics (the bias of an attention key), what is
recorded is rounding noise, and two correct runs share not one digit of it. Its natural scale is that of the terms.
An optimizer that divides by the size of the gradient (Adam) turns this noise into an update as large as any other;
what it makes of such a gradient cannot be judged. The same tensor is recognised at its later uses by its statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.differences.row_facts import RowFacts, tensor_kind
from msprobe.compare.differences.statistics_arrays import largest_input
from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.records.leaves import element_count
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats, Measured, Role, RowKind

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference


def dependencies(table: LeafTable) -> NDArray[np.int64]:
    """For each backward entry its forward entry, for parameter gradients the backward or forward entry of the
    module."""
    places: dict[tuple[str, str, int | None], int] = {}
    depends = np.full(len(table.entries), -1, np.int64)
    pending: list[tuple[int, tuple[str, str, int | None]]] = []
    for number in range(len(table.entries)):
        key = table.key(number)
        places[key.stem, key.phase, key.call] = number
        if key.phase == "backward":
            pending.append((number, (key.stem, "forward", key.call)))
        elif key.phase == "parameters_grad":
            pending.append((number, (key.stem, "backward", key.call or 0)))
    for number, wanted in pending:
        depends[number] = places.get(wanted, places.get((wanted[0], "forward", wanted[2]), -1))
    return depends


_OPTIMIZER = "optimizer"
_CANCELLED = 1e-3
_SOURCES = {"backward": 0, "parameters_grad": 1}  # the terms come in with the entry itself, or with its backward entry
CancelledGradients = dict[tuple[Any, ...], float]


def cancellation_scales(measured: Measured, table: LeafTable, facts: RowFacts, known: CancelledGradients) -> Floats:
    """Per numeric row of ``facts`` the least root mean square to judge it by; 0 where its own decides.

    ``known`` holds the statistics of vanished tensors and grows; give the same one to the next step, whose optimizer
    starts from them.
    """
    rows, norms = facts.numeric, facts.norms.T
    entries = table.entry_of_row()[rows]
    result = measured.role[rows] == Role.RESULT
    scales = _sum_scales(measured, table, np.where(result, entries, -1), facts)
    rms = np.where(np.isfinite(norms[1]), norms[1], 0.0) / np.sqrt(np.maximum(facts.numel, 1.0))
    vanished = rms < _CANCELLED * scales
    if not known and not vanished.any():
        return scales
    updated = np.array([key.parent == _OPTIMIZER for key in table.keys], np.bool_)[entries]
    seeds = np.concatenate(([float(print_[2] or 0.0) for print_ in known], norms[0][vanished | updated]))
    chosen = vanished | updated | np.isin(norms[0], seeds)
    tainted: set[int] = set()
    for at in chosen.nonzero()[0].tolist():
        leaf, entry = table.target[int(rows[at])], int(entries[at])
        if leaf is None:
            continue
        prints = _print(leaf.raw)
        if entry in tainted:
            scales[at] = math.inf
        elif not result[at]:
            scales[at] = known.get(prints, 0.0)
            if scales[at] and updated[at]:
                tainted.add(entry)
                scales[at] = math.inf
        if rms[at] < _CANCELLED * scales[at]:
            known[prints] = float(scales[at])
    return scales


def _print(raw: Any) -> tuple[Any, ...]:
    return raw.get("Max"), raw.get("Min"), raw.get("Norm")


def _sum_scales(measured: Measured, table: LeafTable, entries: NDArray[np.int64], facts: RowFacts) -> Floats:
    """The scale of the terms of each gradient; 0 for other values. ``entries`` is -1 for what is no result."""
    source = np.array([_SOURCES.get(key.phase, -1) for key in table.keys], np.int64)
    source = np.where(source == 1, measured.depends, np.where(source == 0, np.arange(len(source)), -1))
    wanted = np.where(entries >= 0, source[entries], -1)
    given = np.concatenate((facts.given, [[0.0, 0.0]]))
    for number in np.unique(wanted[np.isnan(given[wanted, 0])]).tolist():
        given[number] = largest_input(table, number)
    rms, count = given[wanted].T
    terms = count / np.maximum(facts.numel, 1.0)
    return np.where((terms > 1.0) & (facts.numel > 0.0), rms * np.sqrt(np.maximum(terms, 0.0)), 0.0)


Difference: TypeAlias = "TensorDifference | None"


def measure(
    table: LeafTable,
    facts: RowFacts,
    exemptions: Sequence[Exemption] = (),
    *,
    tensors: Sequence[Difference] | None = None,
    cancelled_gradients: CancelledGradients | None = None,
) -> Measured:
    """Measure all rows from their ``facts``, whose ``kind`` changes; ``tensors`` holds whole-tensor differences by row.

    ``exemptions`` say which kinds are none and which rows mean nothing.

    ``cancelled_gradients`` is what ``cancellation_scales`` learned in the steps before; it grows.
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
        floors[facts.numeric] = _fill_statistics(
            measured, table, facts, {} if cancelled_gradients is None else cancelled_gradients
        )
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
        kind = RowKind.NONE if ours is None or theirs is None else tensor_kind(theirs, ours.raw, theirs.raw)
        measured.kind[row] = kind or RowKind.UNINITIALISED


def _fill_statistics(
    measured: Measured, table: LeafTable, facts: RowFacts, cancelled_gradients: CancelledGradients
) -> Floats:
    """Measure rows by their statistics; returns the least root mean square each is judged by."""
    rows, numel = facts.numeric, facts.numel
    measured.roundoff[rows] = facts.roundoff
    measured.numel[rows] = numel
    measured.rounded[rows] = facts.rounded
    floor = cancellation_scales(measured, table, facts, cancelled_gradients)
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
            measured.kind[row] = RowKind.NON_FINITE
        if math.isnan(difference.relative_norm):
            if measured.kind[row] <= RowKind.UNCHECKED:
                measured.kind[row] = RowKind.UNCHECKED
            continue
        if difference.calibrated and measured.kind[row] == RowKind.SHAPE:
            measured.kind[row] = RowKind.NONE  # the products have one shape
        leaf = table.golden[row]
        raw = leaf.raw if leaf is not None else {}
        measured.roundoff[row] = unit_roundoff(str(raw.get("dtype", "")))
        count = element_count(raw)
        measured.element[row] = difference.relative_max * _share(difference.largest, floors[row])
        measured.norm[row] = difference.relative_norm * _share(difference.norm, floors[row] * math.sqrt(count))
        measured.mean[row] = measured.projection[row] = 0.0
        measured.whole[row] = True
        measured.numel[row] = count
        if measured.kind[row] == RowKind.UNCHECKED:
            measured.kind[row] = RowKind.NONE


def _share(own: float, floor: float) -> float:
    """Turns a difference relative to ``own`` into one relative to the larger of both scales."""
    return own / floor if floor > own else 1.0
