"""Parameters that an update of the golden run moves and that of the target leaves as they are.

An optimizer may work on a copy of the parameters (in 32 bits, or the share of one rank) and write the result back.
Where that is forgotten, the next step begins with the same parameters. In a dtype of 16 bits the difference of one
step may be within rounding, but that not a single statistic changes, while the golden run's do, is no rounding.
"""

from __future__ import annotations

from typing import Any

from msprobe.compare.differences.parameter_updates import Parameter, ParameterUpdates, Sums, sums_of
from msprobe.compare.records.leaves import as_float, element_count
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import PARAMETER
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Measured, Role, RowKind

_ELEMENTS, _SHARE = 4.0, 0.01
"""So many elements of a parameter, or this share of them, have to move by their last digit."""
_SEVERAL = 2


def mark_lost_updates(table: LeafTable, measured: Measured, earlier: ParameterUpdates) -> None:
    """Mark the parameters whose update is lost, where there are several; ``earlier`` is what the step before showed."""
    lost, certain = [], 0
    entry_of_row = table.entry_of_row()
    for row in (measured.role == Role.PARAMETER).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        if target is None or golden is None or target.slot != PARAMETER or measured.kind[row] > RowKind.VALUE:
            continue
        name: Parameter = table.keys[entry_of_row[row]].stem, target.suffix.rpartition(".")[2]
        before = earlier.parameters.get(name)
        if before is not None and _is_lost(target.raw, golden.raw, before):
            lost.append(row)
            certain += _moves_many(golden.raw, before[1])
    if certain >= _SEVERAL:
        measured.kind[lost] = RowKind.NOT_UPDATED


def _is_lost(target: Any, golden: Any, before: tuple[Sums, Sums]) -> bool:
    """Return whether the golden run moved a parameter, and the target did not."""
    ours, theirs = sums_of(target), sums_of(golden)
    if ours is None or theirs is None or not golden.get("requires_grad", True):
        return False
    unmoved = all(now == then or now != now for now, then in zip(ours, before[0], strict=True))
    return unmoved and any(now != then for now, then in zip(theirs, before[1], strict=True) if now == now)


def _moves_many(golden: Any, before: Sums) -> bool:
    """Return whether a parameter moved by more than some elements do that are rounded the other way."""
    largest = max(abs(as_float(golden.get(spec.name))) for spec in (LARGEST, SMALLEST))
    digit = 2.0 * unit_roundoff(str(golden.get("dtype", ""))) * largest
    elements = max(_ELEMENTS / max(element_count(golden) or 1, 1), _SHARE)
    mean, projection = (abs(now - then) for now, then in zip(sums_of(golden) or before, before, strict=True))
    return mean > elements * digit or projection > _ELEMENTS * digit
