"""Measure all rows of a table: how far target and golden are apart, relative to the scale of the tensor.

``measure`` puts together what each row says by itself (``row_facts``), the differences of whole tensors, and what
follows from other entries: ``dependencies`` and ``cancellation_scales``. No tolerance is applied here.

``cancellation_scales`` is for gradients that cancel to zero. The gradient of a bias is a sum over many terms. Where
the sum is zero by mathematics (the bias of an attention key), the recorded value is rounding noise, in which two
correct runs have no digit in common. Its scale is that of the terms. An optimizer that divides by the size of the
gradient (Adam) turns this noise into an update as large as any other; the results of such an update cannot be judged.
The same tensor is recognised in later calls by its statistics.
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
from msprobe.core.tensors.statistics import NORM_COLUMN, STATISTIC_NAMES
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats, Measured, Role, RowKind

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference

_OPTIMIZER = "optimizer"
_CANCELLED = 1e-3
_SOURCES = {"backward": 0, "parameters_grad": 1}  # the terms come in with the entry itself, or with its backward entry
CancelledGradients = dict[tuple[Any, ...], float]
"""The scales of cancelled gradients, in data units, by their fingerprints."""

Difference: TypeAlias = "TensorDifference | None"


def measure(
    table: LeafTable,
    facts: RowFacts,
    exemptions: Sequence[Exemption] = (),
    *,
    tensors: Sequence[Difference] | None = None,
    cancelled_gradients: CancelledGradients | None = None,
) -> Measured:
    """Return the differences of all rows.

    Args:
        table: the paired leaves.
        facts: what each row says by itself; its ``kind`` is changed.
        exemptions: they say which kinds are no difference, and which rows mean nothing.
        tensors: the differences of whole tensors, one per row; None where only statistics are compared.
        cancelled_gradients: what ``cancellation_scales`` learned in earlier steps; it grows.
    """
    rows = table.row_count
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
    least_scales = np.zeros(rows)
    if facts.numeric.size:
        least_scales[facts.numeric] = _fill_statistics(
            measured, table, facts, {} if cancelled_gradients is None else cancelled_gradients
        )
    for exemption in exemptions:
        exemption.relax(table, measured.kind)
    if tensors is not None:
        _fill_tensors(measured, table, tensors, least_scales)
    for exemption in exemptions:
        _clear_differences(measured, table, exemption.meaningless_rows(table, measured))
    return measured


def _clear_differences(measured: Measured, table: LeafTable, rows: Sequence[int]) -> None:
    """Set the differences of ``rows``, which mean nothing, to zero; what their shapes and dtypes say stays."""
    if not rows:
        return
    for values in (measured.element, measured.mean, measured.norm, measured.projection):
        values[list(rows)] = 0.0
    for row in rows:
        target, golden = table.target[row], table.golden[row]
        kind = RowKind.NONE if target is None or golden is None else tensor_kind(golden, target.raw, golden.raw)
        measured.kind[row] = kind or RowKind.UNINITIALISED


def _fill_statistics(
    measured: Measured, table: LeafTable, facts: RowFacts, cancelled_gradients: CancelledGradients
) -> Floats:
    """Measure rows by their statistics, and return the least root mean square by which each of them is judged."""
    rows, numel = facts.numeric, facts.numel
    measured.roundoff[rows] = facts.roundoff
    measured.numel[rows] = numel
    measured.rounded[rows] = facts.rounded
    least_scale = cancellation_scales(measured, table, facts, cancelled_gradients)
    largest, norm = facts.size.T
    elements = np.maximum(numel, 1.0)
    rms = np.where(norm > 0.0, norm / np.sqrt(elements), largest)
    scale = np.maximum(largest, least_scale)
    measured.element[rows] = _ratio(facts.apart[:, 0], scale)
    measured.mean[rows] = _ratio(facts.apart[:, 1], np.maximum(rms, least_scale))
    measured.norm[rows] = _ratio(facts.apart[:, 2], np.maximum(norm, least_scale * np.sqrt(elements)))
    measured.projection[rows] = _ratio(facts.apart[:, 3], scale * np.sqrt(elements))
    measured.reduction[rows] = _reductions(table, rows, facts.longest, numel)
    return least_scale


def _ratio(difference: Floats, scale: Floats) -> Floats:
    return np.where(difference == 0.0, 0.0, difference / np.where(scale > 0.0, scale, 1e-300))


def _reductions(table: LeafTable, rows: NDArray[np.int64], longest: Floats, numel: Floats) -> Floats:
    """Return an estimate of the number of terms behind each element.

    It is the longest axis of the call, or the elements of its largest tensor per element of this one.
    """
    entry = table.entry_of_row()
    most_elements = np.zeros(len(table.entries))
    longest_axes = np.ones(len(table.entries))
    np.maximum.at(most_elements, entry[rows], numel)
    np.maximum.at(longest_axes, entry[rows], longest)
    return np.asarray(np.maximum(longest_axes[entry[rows]], most_elements[entry[rows]] / np.maximum(numel, 1.0)))


def _fill_tensors(measured: Measured, table: LeafTable, tensors: Sequence[Difference], least_scales: Floats) -> None:
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
        measured.element[row] = difference.relative_max * _share(difference.largest, least_scales[row])
        measured.norm[row] = difference.relative_norm * _share(difference.norm, least_scales[row] * math.sqrt(count))
        measured.mean[row] = measured.projection[row] = 0.0
        measured.whole[row] = True
        measured.numel[row] = count
        if measured.kind[row] == RowKind.UNCHECKED:
            measured.kind[row] = RowKind.NONE


def _share(own: float, least: float) -> float:
    """Return the factor that makes a difference relative to ``own`` relative to the larger of both scales."""
    return own / least if least > own else 1.0


def dependencies(table: LeafTable) -> NDArray[np.int64]:
    """Return for each entry the number of the entry whose noise it inherits beside its inputs; -1 for none.

    A backward entry depends on its forward entry, the gradients of parameters on the backward or forward entry of
    their module.
    """
    numbers: dict[tuple[str, str, int | None], int] = {}
    depends = np.full(len(table.entries), -1, np.int64)
    pending: list[tuple[int, tuple[str, str, int | None]]] = []
    for number in range(len(table.entries)):
        key = table.keys[number]
        numbers[key.stem, key.phase, key.call] = number
        if key.phase == "backward":
            pending.append((number, (key.stem, "forward", key.call)))
        elif key.phase == "parameters_grad":
            pending.append((number, (key.stem, "backward", key.call or 0)))
    for number, source in pending:
        depends[number] = numbers.get(source, numbers.get((source[0], "forward", source[2]), -1))
    return depends


def cancellation_scales(measured: Measured, table: LeafTable, facts: RowFacts, known: CancelledGradients) -> Floats:
    """Return for each numeric row of ``facts`` the smallest scale (a root mean square) that divides its difference.

    It is the size of the terms for a gradient that cancelled, inf for the result of an update from such a gradient, and
    0 elsewhere: there the own size of the tensor decides.

    ``known`` has the scales of cancelled gradients by their fingerprints, and grows; the next step needs it, because
    its optimizer starts from these gradients.
    """
    rows, norms = facts.numeric, facts.norms.T
    entries = table.entry_of_row()[rows]
    result = measured.role[rows] == Role.RESULT
    scales = _sum_scales(measured, table, np.where(result, entries, -1), facts)
    rms = np.where(np.isfinite(norms[1]), norms[1], 0.0) / np.sqrt(np.maximum(facts.numel, 1.0))
    cancelled = rms < _CANCELLED * scales
    if not known and not cancelled.any():
        return scales
    updated = np.array([key.parent == _OPTIMIZER for key in table.keys], np.bool_)[entries]
    known_norms = [float(fingerprint[NORM_COLUMN] or 0.0) for fingerprint in known]
    seeds = np.concatenate((known_norms, norms[0][cancelled | updated]))
    candidates = cancelled | updated | np.isin(norms[0], seeds)
    tainted: set[int] = set()
    for position in candidates.nonzero()[0].tolist():
        leaf, entry = table.target[int(rows[position])], int(entries[position])
        if leaf is None:
            continue
        fingerprint = _fingerprint(leaf.raw)
        if entry in tainted:
            scales[position] = math.inf
        elif not result[position]:
            scales[position] = known.get(fingerprint, 0.0)
            if scales[position] and updated[position]:
                tainted.add(entry)
                scales[position] = math.inf
        if rms[position] < _CANCELLED * scales[position]:
            known[fingerprint] = float(scales[position])
    return scales


def _fingerprint(raw: Any) -> tuple[Any, ...]:
    """Return what recognises a tensor in later calls: its statistics, in table order."""
    return tuple([raw.get(name) for name in STATISTIC_NAMES])


def _sum_scales(measured: Measured, table: LeafTable, entries: NDArray[np.int64], facts: RowFacts) -> Floats:
    """Return the scale of the terms of each gradient; 0 for other values.

    ``entries`` has the entry of each result, and -1 for a row that is no result.
    """
    source = np.array([_SOURCES.get(key.phase, -1) for key in table.keys], np.int64)
    source = np.where(source == 1, measured.depends, np.where(source == 0, np.arange(len(source)), -1))
    source_of_row = np.where(entries >= 0, source[entries], -1)
    inputs = np.concatenate((facts.largest_inputs, [[0.0, 0.0]]))
    for number in np.unique(source_of_row[np.isnan(inputs[source_of_row, 0])]).tolist():
        inputs[number] = largest_input(table, number)
    rms, count = inputs[source_of_row].T
    terms = count / np.maximum(facts.numel, 1.0)
    return np.where((terms > 1.0) & (facts.numel > 0.0), rms * np.sqrt(np.maximum(terms, 0.0)), 0.0)
