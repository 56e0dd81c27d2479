"""What the steps before say about gradients and updates: means and projections, which add up as tensors do.

The mean of a sum of tensors is the sum of their means, and so is the projection. So the update of a parameter between
two steps, and the sum of gradients that nobody set to zero, are known from statistics, exactly up to rounding.

An optimizer may work on a copy of the parameters (in 32 bits, or the share of one rank) and write the result back.
Where that is forgotten, the next step begins with the same parameters. In a dtype of 16 bits the difference of one
step may be within rounding, but that not a single statistic changes, while the golden run's do, is no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msprobe.compare.differences.cancelled import ANYTHING
from msprobe.compare.records.optimizer_steps import OptimizerStep, optimizer_steps, parameters_after
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import PARAMETER
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Ints, Measured, Role, RowKind
from msprobe.trace.leaves import as_float, element_count

Parameter = tuple[str, str]
"""The stem of a module and the name of its parameter."""
Sums = tuple[float, float]
"""Mean and projection, in units of the data; the projection is NaN where none is recorded."""
_ELEMENTS, _SHARE = 4.0, 0.01
"""So many elements of a parameter, or this share of them, have to move by their last digit."""
_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class ParameterUpdates:
    """What one step, and the steps before it, showed of each parameter; each pair has the target and the golden run.

    Attributes:
        optimizers: the steps of optimizers in the headers.
        parameters: the values that the step began with.
        gradients: the gradients of the step, summed over its backward passes.
        accumulated: the sum of the gradients of all steps so far.
        left: the parameters of both sides as the step left them, where the headers have them; by name.
        step: the number of the step.
        agree: whether each side has an optimizer of its own, and the parameters after the step agree.
    """

    optimizers: tuple[list[OptimizerStep], list[OptimizerStep]] = ((), ())  # type: ignore[assignment]
    parameters: dict[Parameter, tuple[Sums, Sums]] = field(default_factory=dict)
    gradients: dict[Parameter, tuple[Sums, Sums]] = field(default_factory=dict)
    accumulated: dict[Parameter, tuple[Sums, Sums]] = field(default_factory=dict)
    left: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    step: int | None = None
    agree: bool = False


NO_UPDATES = ParameterUpdates()


def updates_of(
    table: LeafTable, role: Ints, target: Dump, golden: Dump, before: ParameterUpdates | None = None
) -> ParameterUpdates:
    """Return what a step and those ``before`` show; ``role`` has a ``Role`` per row."""
    before = before or NO_UPDATES
    optimizers = list(optimizer_steps(target)), list(optimizer_steps(golden))
    parameters: dict[Parameter, tuple[Sums, Sums]] = {}
    gradients: dict[Parameter, tuple[Sums, Sums]] = {}
    rows = (role == Role.PARAMETER).nonzero()[0]
    for row, number in zip(rows.tolist(), table.entry_of_row()[rows].tolist(), strict=True):
        pair = _pair(table, row)
        if pair is not None:
            parameters.setdefault((table.keys[number].stem, pair[0]), pair[1])
    for number, key in enumerate(table.keys):
        for row in table.rows_of(number) if key.phase == "parameters_grad" else ():
            pair = _pair(table, row)
            if pair is not None:
                gradients[key.stem, pair[0]] = _added(gradients.get((key.stem, pair[0])), pair[1])
    accumulated = {name: _added(before.accumulated.get(name), pair) for name, pair in gradients.items()}
    after = parameters_after(target), parameters_after(golden)
    left = {name: (after[0][name], after[1][name]) for name in after[0].keys() & after[1].keys()}
    accumulated = {**before.accumulated, **accumulated}
    return ParameterUpdates(optimizers, parameters, gradients, accumulated, left, target.place.step)


def sums_of(raw: Any) -> Sums | None:
    """Return mean and projection of a recorded tensor; None where it has no finite mean."""
    mean = as_float(raw.get("Mean")) if isinstance(raw, dict) else math.nan
    return (mean, as_float(raw.get(KEY))) if math.isfinite(mean) else None


def _pair(table: LeafTable, row: int) -> tuple[str, tuple[Sums, Sums]] | None:
    """Return the name of a parameter without its module, and the sums of both sides; None where one has none."""
    target, golden = table.target[row], table.golden[row]
    if target is None or golden is None:
        return None
    left, right = sums_of(target.raw), sums_of(golden.raw)
    return (target.suffix.rpartition(".")[2], (left, right)) if left is not None and right is not None else None


def _added(left: tuple[Sums, Sums] | None, right: tuple[Sums, Sums]) -> tuple[Sums, Sums]:
    if left is None:
        return right
    target, golden = ((a[0] + b[0], a[1] + b[1]) for a, b in zip(left, right, strict=True))
    return target, golden


def mark_lost_updates(table: LeafTable, measured: Measured, earlier: ParameterUpdates) -> None:
    """Mark the parameters whose update is lost, where there are several; ``earlier`` is what the step before showed."""
    lost, certain = [], 0
    entry_of_row = table.entry_of_row()
    for row in (measured.role == Role.PARAMETER).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        if target is None or golden is None or target.slot != PARAMETER or measured.kind[row] > RowKind.VALUE:
            continue
        if measured.free[row] >= ANYTHING:
            continue  # its gradient was nothing but rounding, and may have been nothing
        name: Parameter = table.keys[entry_of_row[row]].stem, target.suffix.rpartition(".")[2]
        before = earlier.parameters.get(name)
        if before is not None and _is_lost(target.raw, golden.raw, before):
            lost.append(row)
            certain += _moves_many(golden.raw, before[1])
    if certain >= _SEVERAL:
        measured.kind[lost] = RowKind.NOT_UPDATED


def _is_lost(target: Any, golden: Any, before: tuple[Sums, Sums]) -> bool:
    """Return whether the golden run moved a parameter, and the target did not. A coarser dtype rounds a small step
    away."""
    ours, theirs = sums_of(target), sums_of(golden)
    if ours is None or theirs is None or not golden.get("requires_grad", True):
        return False
    if unit_roundoff(str(target.get("dtype"))) > unit_roundoff(str(golden.get("dtype"))):
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
