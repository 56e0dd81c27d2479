"""Measure all rows of a table: how far target and golden are apart, relative to the scale of the tensor.

``measure`` puts together what each row says by itself (``row_facts``), the differences of whole tensors, and what
follows from other entries: ``dependencies``, ``cancellation_scales`` and ``coarsest_passed``. No tolerance is applied
here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.differences.cancelled_gradients import CancelledGradients
from msprobe.compare.differences.coarsest import AS_RECORDED, NumberFormats, coarsest_passed, enclosing, raise_to_passed
from msprobe.compare.differences.row_facts import RowFacts, tensor_kind
from msprobe.compare.differences.row_remarks import Remark
from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.records.entries import OPTIMIZER
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import Leaf
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF, unit_roundoff
from msprobe.numerics.verdict import Bools, Floats, Ints, Measured, Role, RowKind, beyond_rounding
from msprobe.trace.leaves import element_count

if TYPE_CHECKING:
    from msprobe.numerics.metrics.tensor import TensorDifference

_WEIGHTS = np.sqrt(np.array([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0]))  # no two sums of statistics are equal by chance
_OTHER_SUMS = 4.0 * FLOAT32_ROUNDOFF
"""How far statistics of equal tensors may be apart, relative to their scale, where another tool sums in float32."""
Difference: TypeAlias = "TensorDifference | None"


def measure(
    table: LeafTable,
    facts: RowFacts,
    exemptions: Callable[[LeafTable, Ints], Iterable[Exemption]] = lambda *_: (),
    *,
    tensors: Sequence[Difference] | None = None,
    cancelled_gradients: CancelledGradients | None = None,
    formats: NumberFormats = AS_RECORDED,
) -> Measured:
    """Return the differences of all rows.

    Args:
        table: the paired leaves.
        facts: what each row says by itself; its ``kind`` and ``remarks`` are changed.
        exemptions: those that may say which kinds are no difference, and which rows mean nothing.
        tensors: the differences of whole tensors, one per row; None where only statistics are compared.
        cancelled_gradients: what ``cancellation_scales`` learned in earlier steps; it grows.
        formats: what the user says about number formats.
    """
    earlier = CancelledGradients() if cancelled_gradients is None else cancelled_gradients
    measured = _without_differences(table, facts, formats, has_values=facts.numeric.size > 0 or tensors is not None)
    least_scales = np.zeros(table.row_count)
    if facts.numeric.size:
        least_scales[facts.numeric] = _fill_statistics(measured, table, facts, earlier)
    for exemption in exemptions(table, measured.kind):
        exemption.relax(table, measured.kind)
    if tensors is not None:
        _mark_other_files(facts.remarks, measured, tensors)
        _fill_tensors(measured, table, tensors, least_scales, set(_marked(facts.remarks, Remark.DAMAGED)))
    for exemption in exemptions(table, measured.kind):
        _clear_differences(measured, table, exemption.meaningless_rows(table, measured))
    for exemption in exemptions(table, measured.kind):
        without_effect = exemption.rows_without_effect(table, measured)
        _set_to_zero(measured, without_effect)
        measured.kind[list(without_effect)] = RowKind.WITHOUT_EFFECT
    if table.other_tool is not None and tensors is None:  # equal values, whose statistics it rounds while it sums
        _set_to_zero(measured, (measured.worst <= _OTHER_SUMS).nonzero()[0].tolist())
    if table.kernels:
        from msprobe.compare.differences.inexact_functions import add_known_errors  # for other devices only

        add_known_errors(measured, table)
    earlier.coarsest = raise_to_passed(measured, table, earlier.coarsest)
    return measured


def _without_differences(table: LeafTable, facts: RowFacts, formats: NumberFormats, *, has_values: bool) -> Measured:
    """Return what is known of the rows before their values are compared.

    ``has_values`` says whether any values can differ.
    """
    rows, depends = table.row_count, dependencies(table)
    steep, single = _steepness(table, facts)
    return Measured(
        role=facts.role,
        kind=facts.kind,
        element=np.zeros(rows),
        mean=np.zeros(rows),
        norm=np.zeros(rows),
        projection=np.zeros(rows),
        roundoff=np.full(rows, 2.0**-24),
        passed=np.zeros(rows),
        numel=np.ones(rows),
        reduction=np.ones(rows),
        rounded=np.zeros(rows, np.bool_),
        whole=np.zeros(rows, np.bool_),
        free=np.where(facts.role == Role.RESULT, single[table.entry_of_row()], 0.0),
        inexact=np.zeros(rows),
        fresh=np.zeros(rows, np.bool_),
        row_starts=table.starts,
        depends=depends,
        coarsest=coarsest_passed(table, facts.coarsest, depends),
        origin=origins(facts),
        enclosing=enclosing(table) if has_values else np.full(len(table.keys), -1),
        steep=steep,
        squares=np.array([key.parent == OPTIMIZER for key in table.keys], np.bool_),
        other_formats=np.array([formats.differ]),
        without_values=(facts.remarks & int(Remark.WITHOUT_VALUES)).nonzero()[0],
        after_update=_after_update(table),
    )


def _after_update(table: LeafTable) -> Bools:
    """Return for each entry that is not of an optimizer whether one has moved parameters before it."""
    of_optimizer = np.array([key.parent == OPTIMIZER for key in table.keys], np.bool_)
    return np.logical_or.accumulate(of_optimizer) & ~of_optimizer


def _steepness(table: LeafTable, facts: RowFacts) -> tuple[Floats, Floats]:
    if not facts.numeric.size:
        return np.zeros(len(table.entries)), np.zeros(len(table.entries))
    from msprobe.compare.differences.steep import steepness  # loaded where values differ

    return steepness(table, facts)


def _set_to_zero(measured: Measured, rows: Sequence[int]) -> None:
    for values in (measured.element, measured.mean, measured.norm, measured.projection):
        values[list(rows)] = 0.0


def _clear_differences(measured: Measured, table: LeafTable, rows: Sequence[int]) -> None:
    """Set the differences of ``rows``, which mean nothing, to zero; what their shapes and dtypes say stays."""
    _set_to_zero(measured, rows)
    for row in rows:
        if row in table.recorded_otherwise or (table.partial is not None and table.partial.leaves_unjudged(row)):
            measured.kind[row] = RowKind.UNCHECKED
            continue
        target, golden = table.target[row], table.golden[row]
        kind = RowKind.NONE if target is None or golden is None else tensor_kind(golden, target.raw, golden.raw)
        measured.kind[row] = kind or RowKind.UNINITIALISED


def _fill_statistics(
    measured: Measured, table: LeafTable, facts: RowFacts, cancelled_gradients: CancelledGradients
) -> Floats:
    """Measure rows by their statistics, and return the least root mean square by which each of them is judged."""
    from msprobe.compare.differences.cancelled import cancellation_scales  # loaded where values differ

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
    measured.reduction[rows] = _reductions(table, facts)
    return least_scale


def _ratio(difference: Floats, scale: Floats) -> Floats:
    return np.where(difference == 0.0, 0.0, difference / np.where(scale > 0.0, scale, 1e-300))


def _reductions(table: LeafTable, facts: RowFacts) -> Floats:
    """Return an estimate of the number of terms behind each element.

    It is the longest axis of the call, or the elements of its largest tensor per element of this one: of the gradients
    that a call gets also of one that agrees.
    """
    entry = table.entry_of_row()[facts.numeric]
    most_elements = np.nan_to_num(facts.largest_inputs[:, 1])
    longest_axes = np.ones(len(table.entries))
    np.maximum.at(most_elements, entry, facts.numel)
    np.maximum.at(longest_axes, entry, facts.longest)
    return np.asarray(np.maximum(longest_axes[entry], most_elements[entry] / np.maximum(facts.numel, 1.0)))


def _marked(remarks: Ints, remark: Remark) -> list[int]:
    return (remarks & int(remark)).nonzero()[0].tolist()  # type: ignore[no-any-return]


def _fill_tensors(
    measured: Measured,
    table: LeafTable,
    tensors: Sequence[Difference],
    least_scales: Floats,
    damaged: Container[int],
) -> None:
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
        measured.roundoff[row] = _coarser_of(table, row) if measured.other_formats.any() else _roundoff(leaf)
        count = element_count(raw)
        measured.element[row] = difference.relative_max * _share(difference.largest, least_scales[row])
        measured.norm[row] = difference.relative_norm * _share(difference.norm, least_scales[row] * math.sqrt(count))
        measured.mean[row] = measured.projection[row] = 0.0
        measured.whole[row] = True
        measured.numel[row] = count
        if measured.kind[row] == RowKind.UNCHECKED and row not in damaged:
            measured.kind[row] = RowKind.NONE


def _coarser_of(table: LeafTable, row: int) -> float:
    """Return the unit round-off of the coarser dtype of both sides."""
    return max(_roundoff(table.target[row]), _roundoff(table.golden[row]))


def _roundoff(leaf: Leaf | None) -> float:
    return unit_roundoff(str(leaf.raw.get("dtype", ""))) if leaf is not None else 0.0


def _mark_other_files(remarks: Ints, measured: Measured, tensors: Sequence[Difference]) -> None:
    """Mark the rows whose tensor files are equal and whose recorded statistics, measured so far, are not."""
    for row in beyond_rounding(measured).nonzero()[0].tolist():
        difference = tensors[row]
        if difference is not None and not difference.calibrated and difference.relative_norm == 0.0:
            remarks[row] |= int(Remark.OTHER_FILE)


def _share(own: float, least: float) -> float:
    """Return the factor that makes a difference relative to ``own`` relative to the larger of both scales."""
    return own / least if least > own else 1.0


def origins(facts: RowFacts) -> NDArray[np.int64]:
    """Return for each input that differs the row of the last result before it with the same statistics on both sides,
    which is the same tensor; -1 for other rows."""
    result = np.full(len(facts.role), -1, np.int64)
    selected = (facts.apart > 0.0).any(axis=1).nonzero()[0]
    if not len(selected):
        return result
    values = np.concatenate((facts.norms[selected], facts.apart[selected], facts.numel[selected, None]), axis=1)
    digest = np.nan_to_num(values) @ _WEIGHTS
    order = np.argsort(digest, kind="stable")
    rows, group = facts.numeric[selected][order], np.cumsum(np.concatenate(([0], np.diff(digest[order]) != 0.0)))
    is_result = facts.role[rows] == Role.RESULT
    position = np.where(is_result, np.arange(len(rows)), -1)
    last = np.maximum.accumulate(position + group * len(rows)) - group * len(rows)
    found = ~is_result & (last >= 0)
    result[rows[found]] = rows[last[found]]
    return result


def dependencies(table: LeafTable) -> NDArray[np.int64]:
    """Return for each entry the number of the entry whose noise it inherits beside its inputs; -1 for none.

    A backward entry depends on its forward entry, the gradients of parameters on the backward or forward entry of
    their module. What an optimizer of merged ranks gets has no such entry of its own number, but that of the last one.
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
    for number, wanted in pending:
        source = numbers.get(wanted)
        if source is None:
            stem, phase, call = wanted
            calls = (call, (call or 0) - 1) if phase == "backward" else (call,)
            sources = (numbers.get((stem, name, one)) for one in calls for name in (phase, "forward"))
            source = next((source for source in sources if source is not None), -1)
        depends[number] = source
    return depends
