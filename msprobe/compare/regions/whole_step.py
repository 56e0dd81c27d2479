"""Differences that do not leave the step: its losses agree, and so do the gradients of all parameters.

What a step computes outside of all modules is a formula of its losses: rows that are chosen before a loss or ignored by
it, losses that are added before one backward pass or have a pass each. What leaves the step are the losses, which are
the numbers of which gradients are computed, and the gradients. A gradient of a sum is the sum of gradients, so where
the sides make another number of backward passes, the sums of both are compared: those of the losses, and of gradients
the mean and the projection, which add up as tensors do.

Excused is what shows there alone: forward calls whose results require a gradient and have one on both sides, and
backward calls. Numbers that no gradient flows through (labels, a metric), state, and what agrees less than it differs
inside of the step are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import OF_PARAMETERS, is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.core.tensors.projection import KEY
from msprobe.core.tensors.statistics import LARGEST, NORM
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.numerics.verdict import Floats, Judged, Measured, Role, RowKind
from msprobe.trace.leaves import as_float, element_count

_EQUAL = 2e-5
"""How far two sums may be apart in float32, relative to the size of what is added."""
_ROUNDINGS = 4.0
_MUCH_CLOSER = 0.1
"""How far what leaves the step may be apart, relative to the difference inside."""
_ARGUMENTS = RowKind.ARGUMENT, RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN
_FORMS = RowKind.SHAPE, RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN
_Raw = Mapping[str, Any]
_Parameter = tuple[str, str]


class WholeStep:
    """Says what leaves a step.

    Args:
        table: both dumps.
        measured: the differences of all rows, with their roles.
        judged: the verdicts of all rows.
    """

    def __init__(self, table: LeafTable, measured: Measured, judged: Judged) -> None:
        self._table, self._role, self._kind = table, measured.role, judged.kind
        self._measured = measured

    @cached_property
    def makes_other_passes(self) -> bool:
        """Whether the sides make another number of backward passes, and all that leaves the step agrees."""
        return self.agrees and any(len(own) != len(other) for own, other in self._gradients.values())

    @cached_property
    def agrees(self) -> bool:
        """Whether the losses of the step and the gradients of all parameters agree."""
        return math.isfinite(self._leaving)

    def makes_up_for(self, entry: int) -> bool:
        """Return whether a difference of a call outside of all modules, or of what passes them, ends in the step."""
        key = self._table.keys[entry]
        rows = [row for row in self._table.rows_of(entry) if self._kind[row] > RowKind.UNCHECKED]
        if not self.agrees or any(self._kind[row] == RowKind.NON_FINITE for row in rows):
            return False
        if key.phase == Phase.FORWARD.value and not all(self._shows_in_gradients(entry, row) for row in rows):
            return False
        inside = max((self._apart(row) for row in rows), default=0.0)
        return self._leaving <= _MUCH_CLOSER * inside

    def _apart(self, row: int) -> float:
        return float(self._worst[row]) if self._kind[row] == RowKind.VALUE else math.inf

    @cached_property
    def _worst(self) -> Floats:
        return self._measured.worst

    def _shows_in_gradients(self, entry: int, row: int) -> bool:
        """Return whether a row of a forward call is such that losses and gradients show what it does."""
        tensors = list(self._tensors(row))
        if self._role[row] == Role.RESULT:
            return self._has_gradient(entry) and bool(tensors) and all(raw.get("requires_grad") for raw in tensors)
        if not tensors:
            return self._kind[row] in _ARGUMENTS and self._has_gradient(entry)
        return self._kind[row] in _FORMS or all(raw.get("requires_grad") for raw in tensors)

    def _has_gradient(self, entry: int) -> bool:
        return all(self._backward_of(entry, side) is not None for side in (0, 1))

    def _backward_of(self, entry: int, side: int) -> int | None:
        name = self._table.entries[entry][side]
        return self._table.numbers_by_name[side].get(in_phase(str(name), Phase.BACKWARD.value))

    # What leaves the step

    @cached_property
    def _leaving(self) -> float:
        """The largest difference of losses and gradients, relative to their scale; infinite where one differs, or
        nothing shows it."""
        largest = 0.0 if self._gradients else math.inf
        for name in self._gradients:
            if not math.isfinite(largest := max(largest, self._gradients_apart(name))):
                break
        return max(largest, self._losses_apart) if math.isfinite(largest) else math.inf

    @cached_property
    def _gradients(self) -> dict[_Parameter, tuple[list[int], list[int]]]:
        """By parameter the rows of its gradients, by side."""
        found: dict[_Parameter, tuple[list[int], list[int]]] = {}
        phase = Phase.PARAMETERS_GRAD.value
        entries = [number for number, key in enumerate(self._table.keys) if key.phase == phase]
        for number, row in ((entry, row) for entry in entries for row in self._table.rows_of(entry)):
            leaves = self._table.target[row], self._table.golden[row]
            suffix = next((leaf.suffix for leaf in leaves if leaf is not None), "")
            both = found.setdefault((self._table.keys[number].stem, suffix.rpartition(".")[2]), ([], []))
            for rows, leaf in zip(both, leaves, strict=True):
                rows.extend([row] if leaf is not None else [])
        return found

    def _gradients_apart(self, name: _Parameter) -> float:
        """Return how far the gradients of a parameter are apart in all passes."""
        own, other = self._gradients[name]
        if own == other:
            wrong = any(self._kind[row] > RowKind.NONE for row in own)
            return math.inf if wrong else max(float(self._worst[row]) for row in own)
        sides = [
            self._records(rows, leaves) for rows, leaves in ((own, self._table.target), (other, self._table.golden))
        ]
        if not all(sides) or len({str(raw.get("shape")) for side in sides for raw in side}) > 1:
            return math.inf
        size = max(sum(as_float(raw.get(NORM.name)) for raw in side) for side in sides)
        root = math.sqrt(max(element_count(sides[0][0]), 1.0))
        apart = max(
            abs(_sum(sides[0], key) - _sum(sides[1], key)) / max(scale, 1e-300)
            for key, scale in (("Mean", size / root), (KEY, size))
        )
        return apart if apart <= _allowed([*sides[0], *sides[1]]) else math.inf

    def _records(self, rows: list[int], leaves: Any) -> list[_Raw]:
        raws = [leaves[row].raw for row in rows]
        return raws if all(map(is_tensor, raws)) else []

    @cached_property
    def _losses_apart(self) -> float:
        """How far the sums of the losses of both sides are apart."""
        target, golden = (list(self._losses(side)) for side in (0, 1))
        if not target or not golden:
            return math.inf
        sums = _sum(target, LARGEST.name), _sum(golden, LARGEST.name)
        size = max(sum(abs(as_float(raw.get(LARGEST.name))) for raw in side) for side in (target, golden))
        apart = abs(sums[0] - sums[1]) / max(size, 1e-300)
        return apart if apart <= _allowed([*target, *golden]) else math.inf

    def _losses(self, side: int) -> Iterator[_Raw]:
        """Yield the numbers of which gradients are computed: results with a gradient that no later call with a gradient
        gets. Where the gradient of some of them is 1, these are meant; of a sum and its parts the sum, as what gets the
        others leaves no record (``stack``)."""
        numbers: dict[float, tuple[int, _Raw]] = {}
        for number, key in enumerate(self._table.keys):
            if self._table.entries[number][side] is None or key.phase != Phase.FORWARD.value or key.recompute:
                continue
            if key.parent in OF_PARAMETERS or self._backward_of(number, side) is None:
                continue
            for raw in self._scalars(number, side, INPUT):
                numbers.pop(as_float(raw.get(LARGEST.name)), None)
            if not is_module(key) or key.stem not in self._around:
                for raw in self._scalars(number, side, OUTPUT):
                    numbers[as_float(raw.get(LARGEST.name))] = number, raw
        begins = [raw for number, raw in numbers.values() if self._begins_with(number, side)]
        yield from _without_parts(begins) or [raw for _, raw in numbers.values()]

    def _begins_with(self, number: int, side: int) -> bool:
        """Return whether a backward pass begins with the gradient of a call: it is 1."""
        backward = self._backward_of(number, side)
        given = () if backward is None else self._scalars(backward, side, INPUT)
        return any(as_float(raw.get(LARGEST.name)) == 1.0 for raw in given)

    @cached_property
    def _around(self) -> frozenset[str]:
        forward = Phase.FORWARD.value
        return frozenset(key.parent for key in self._table.keys if key.phase == forward)

    def _scalars(self, number: int, side: int, slot: str) -> Iterator[_Raw]:
        leaves = (self._table.target, self._table.golden)[side]
        for row in self._table.rows_of(number):
            leaf = leaves[row]
            if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw) and element_count(leaf.raw) == 1:
                yield leaf.raw

    def _tensors(self, row: int) -> Iterator[_Raw]:
        for leaf in (self._table.target[row], self._table.golden[row]):
            if leaf is not None and is_tensor(leaf.raw):
                yield leaf.raw


def _without_parts(losses: list[_Raw]) -> list[_Raw]:
    """Return the losses, or the one alone that is the sum of all others."""
    for number, raw in enumerate(losses if len(losses) > 2 else ()):
        others = [*losses[:number], *losses[number + 1 :]]
        apart = abs(as_float(raw.get(LARGEST.name)) - _sum(others, LARGEST.name))
        if apart <= _EQUAL * sum(abs(as_float(other.get(LARGEST.name))) for other in others):
            return [raw]
    return losses


def _sum(raws: list[_Raw], name: str) -> float:
    return math.fsum(as_float(raw.get(name)) for raw in raws)


def _allowed(raws: list[_Raw]) -> float:
    """Return how far sums of these tensors may be apart, relative to their size."""
    return max(_EQUAL, *(_ROUNDINGS * unit_roundoff(str(raw.get("dtype"))) for raw in raws))
