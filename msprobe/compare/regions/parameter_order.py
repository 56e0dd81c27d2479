"""Calls for parameters, of an optimizer or of gradient clipping, that come in another order on either side."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import CLIPPING, OF_PARAMETERS
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sinks import Sinks
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import is_tensor
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF
from msprobe.numerics.verdict import Floats, Ints, Measured, RowKind
from msprobe.trace.likeness import EXACT, same_values


class ParameterOrder:
    """Finds the values of these calls among those of the other side.

    Args:
        table: both dumps.
        sinks: what leaves the step.
        measured: the differences of all rows.
        kind, tolerance: the kinds of all rows, and what they are allowed.
    """

    def __init__(self, table: LeafTable, sinks: Sinks, measured: Measured, kind: Ints, tolerance: Floats) -> None:
        self._sinks, self._table, self._measured = sinks, table, measured
        self._kind, self._tolerance = kind, tolerance

    def is_another(self, entry: int) -> bool:
        """Return whether the values of a call for parameters are among those of the other side for this function; of
        one that the program makes by itself in the order of their elements, as it may be for something else."""
        stem, of_program = self._table.keys[entry].stem, self._table.keys[entry].parent not in OF_PARAMETERS
        for row in self._table.rows_of(entry):
            if self._kind[row] <= RowKind.UNCHECKED or (self._kind[row] == RowKind.SHAPE and self._shapes_of_one_side):
                continue
            for own, others in ((self._table.target, self._values[1]), (self._table.golden, self._values[0])):
                leaf = own[row]
                if leaf is None and self._shapes_of_one_side:
                    continue
                if leaf is None or not is_tensor(leaf.raw):
                    return False
                shape = str(leaf.raw["shape"])
                among = others.get((stem, leaf.slot, shape), ())
                other_parameters = shape in self._shapes_of_one_side
                near = (other for other in among if same_values(leaf.raw, other, self._near(row)))
                if of_program:
                    near = (other for other in near if math.isfinite(self._sinks.twins.distance(leaf.raw, other)))
                if not other_parameters and next(near, None) is None:
                    return False
        return True

    def _near(self, row: int) -> float:
        """Return how far the statistics of one parameter may be apart: after calls in a coarse dtype as far as rows of
        this entry are allowed. Those of a gradient that is clipped may be as far apart as where it leaves the step."""
        (entry,) = self._table.entries_of([row])
        is_clipping = self._table.keys[entry].parent == CLIPPING
        near = self._sinks.twins.allowed(*self._table.tensors(row)) if is_clipping else EXACT
        return float(max(self._tolerance[row], near)) if self._measured.passed[row] > FLOAT32_ROUNDOFF else near

    @cached_property
    def _values(self) -> tuple[dict[tuple[str, str, str], list[Any]], ...]:
        """By side the tensors in calls for parameters, by function, slot and shape."""
        sides: tuple[dict[tuple[str, str, str], list[Any]], ...] = ({}, {})
        calls = {number for number, key in enumerate(self._table.keys) if key.parent in OF_PARAMETERS}
        for number in sorted(calls | self._sinks.updates.calls):
            self._add_values(number, sides)
        return sides

    def _add_values(self, call: int, sides: tuple[dict[tuple[str, str, str], list[Any]], ...]) -> None:
        stem = self._table.keys[call].stem
        for row in self._table.rows_of(call):
            for values, leaf in zip(sides, (self._table.target[row], self._table.golden[row]), strict=True):
                if leaf is not None and is_tensor(leaf.raw):
                    values.setdefault((stem, leaf.slot, str(leaf.raw["shape"])), []).append(leaf.raw)

    @cached_property
    def _shapes_of_one_side(self) -> frozenset[str]:
        """The shapes of the parameters whose gradients only one side has, and of their norms: they have no counterpart
        among the parameters of the other side."""
        gradients = [
            leaf.raw
            for number, key in enumerate(self._table.keys)
            if key.phase == Phase.PARAMETERS_GRAD.value and not self._table.entries[number].of_both
            for row in self._table.rows_of(number)
            if (leaf := self._table.target[row] or self._table.golden[row]) is not None and is_tensor(leaf.raw)
        ]
        return frozenset(str(raw["shape"]) for raw in gradients) | ({"[]"} if gradients else set())
