"""Exemption for gradients that one run multiplies for a while: its loss is scaled, and its gradients are divided again.

A run may scale its loss so that small gradients survive in a 16-bit dtype (``GradScaler``), or divide what several
micro batches add up only at their end. All gradients of its backward pass are then one multiple of those of the other
run, and what the optimizer gets is equal. The factor is read where gradients begin. It must be that of the first
gradients, and the optimizers and the clipping of both runs, whose calls must be recorded, must not get it: nothing has
divided by it then, and it is a difference. Gradients of the target are compared divided by the factor, so that another
fault in the backward pass is found as ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from statistics import median

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.records.entries import CLIPPING, OPTIMIZER
from msprobe.compare.table.precisions import coarser_precision
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, Leaf, is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import NORM, STATISTIC_NAMES
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.trace.leaves import as_float

_FIRST = 6
"""Gradients of both sides that must have the factor."""
_FEWEST = 2
_CLOSE = 1e-4
_NEAR = 1e-3
_ROUNDINGS = 8.0
_SCALED = (*STATISTIC_NAMES, KEY)


class ScaledLosses(Exemption):
    """Divides the gradients of the target by the factor that its loss is scaled by."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the gradients of the target divided; the same table where no loss is scaled."""
        if dumps.mode is not Mode.STATISTICS or dumps.policy is Policy.REFERENCE:
            return table
        factor = factor_of_gradients(table)
        if factor is None or _reaches_optimizer(table, factor):
            return table
        target = list(table.target)
        for row in _rows_of_gradients(table):
            leaf = target[row]
            if leaf is not None and is_tensor(leaf.raw):
                target[row] = _divided(leaf, factor)
        return replace(table, target=target, gradient_factor=factor)

    def remarks(self, table: LeafTable) -> list[str]:
        """Return the sentence about the factor."""
        if table.gradient_factor == 1.0:
            return []
        return [
            f"gradients of the target are {table.gradient_factor:.6g} times those of the golden run until the "
            "optimizer gets them (a scaled loss): they were compared, and are shown, divided by that"
        ]


def factor_of_gradients(table: LeafTable) -> float | None:
    """Return by how much the first gradients of the target are larger; None where that is no factor of them all."""
    first = list(islice(_ratios(table, _rows_of_gradients(table)), _FIRST))
    if len(first) < _FEWEST:
        return None
    factor, near = first[0]
    if abs(factor - 1.0) <= near or any(abs(one / factor - 1.0) > max(near, other) for one, other in first):
        return None
    return factor


def _rows_of_gradients(table: LeafTable) -> Iterator[int]:
    """Yield the rows of backward calls and of gradients of parameters, in the order of execution."""
    for number, key in enumerate(table.keys):
        if key.phase != Phase.FORWARD.value:
            yield from table.rows_of(number)


def _ratios(table: LeafTable, rows: Iterator[int]) -> Iterator[tuple[float, float]]:
    """Yield how many times larger tensors of the target are, and how far rounding may move that; by their norms."""
    coarser = coarser_precision(table)
    for row in rows:
        tensors = table.tensors(row)
        if len(tensors) < 2:
            continue
        own, other = (as_float(raw.get(NORM.name)) for raw in tensors)
        if math.isfinite(own) and math.isfinite(other) and own > 0.0 and other > 0.0:
            roundoff = max(coarser, unit_roundoff(str(tensors[1].get("dtype"))))
            yield own / other, max(_CLOSE, _ROUNDINGS * roundoff)


def _reaches_optimizer(table: LeafTable, factor: float) -> bool:
    """Return whether optimizers get tensors that have the factor, or what clipping has left of it; where none of their
    calls is of both sides, whether clipping does, or nothing shows it.

    Clipping may get the factor where the gradients are divided afterwards: too much is clipped then, and what the
    optimizer gets is smaller where the factor is larger than 1.
    """
    ratios: dict[str, list[float]] = {OPTIMIZER: [], CLIPPING: []}
    for number, key in enumerate(table.keys):
        if key.parent in ratios and table.entries[number].of_both:
            rows = (row for row in table.rows_of(number) if (leaf := table.target[row]) and leaf.slot == INPUT)
            ratios[key.parent] += [ratio for ratio, _ in _ratios(table, rows)]
    if not ratios[OPTIMIZER]:
        return not ratios[CLIPPING] or any(abs(ratio - 1.0) > _NEAR for ratio in ratios[CLIPPING])
    if any(abs(ratio / factor - 1.0) <= _NEAR for ratio in ratios[OPTIMIZER]):
        return True
    if not any(abs(ratio / factor - 1.0) <= _NEAR for ratio in ratios[CLIPPING]):
        return False
    others = [math.log(ratio) for ratio in ratios[OPTIMIZER] if abs(ratio - 1.0) > _NEAR]
    return not others or median(others) * math.log(factor) > 0.0


def _divided(leaf: Leaf, factor: float) -> Leaf:
    """Return a leaf with the statistics of its tensor divided."""
    raw = leaf.raw
    numbers = {name: raw[name] / factor for name in _SCALED if isinstance(raw.get(name), float)}
    return leaf._replace(raw={**raw, **numbers})
