"""Gradients that one side alone computes and that train nothing: those of a constant, or of frozen calls.

Recomputation needs an input that requires a gradient, so programs mark a constant, or the result of a frozen embedding.
Calls that get it have a gradient more there, and calls before the first trained parameter have one at all. Nothing is
lost where this gradient goes nowhere: of all parameters that the optimizers train, gradients are recorded on both sides
and agree, and the call that made the tensor gets no gradient on both sides, of which this one is a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import path_of
from msprobe.compare.records.optimizer_steps import optimizer_steps
from msprobe.compare.regions.cut_gradients import side_requiring
from msprobe.compare.regions.value_flow import ValueFlow
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT
from msprobe.numerics.verdict import Ints, Role, RowKind

_HAVING = {RowKind.MISSING_IN_TARGET: 1, RowKind.MISSING_IN_GOLDEN: 0}
"""The side, 0 or 1, that has a gradient which the other one lacks."""


class NeedlessGradients:
    """Finds gradients of one side that train nothing.

    Args:
        table: both dumps.
        dumps: the dumps of target and golden run.
        role: the ``Role`` of each row.
        kind: the ``RowKind`` of each row.
    """

    def __init__(self, table: LeafTable, dumps: tuple[Dump, Dump], role: Ints, kind: Ints) -> None:
        self._table, self._dumps, self._role, self._kind = table, dumps, role, kind

    def among(self, differing: Sequence[int]) -> frozenset[int]:
        """Return the entries among those of both sides that differ in nothing but such gradients."""
        candidates = [entry for entry in differing if self._table.keys[entry].phase == Phase.BACKWARD.value]
        return frozenset(entry for entry in candidates if self._has_needless_results(entry))

    def _has_needless_results(self, entry: int) -> bool:
        rows = [row for row in self._table.rows_of(entry) if self._kind[row] > RowKind.UNCHECKED]
        sides = {_HAVING.get(RowKind(int(self._kind[row]))) for row in rows if self._role[row] == Role.RESULT}
        if len(sides) != 1 or None in sides or any(self._role[row] != Role.RESULT for row in rows):
            return False
        side = sides.pop()
        pair = self._table.entries[entry]
        forward = self._table.numbers_by_name[0].get(in_phase(pair.target or "", Phase.FORWARD.value))
        if side is None or forward is None:
            return False
        required = [row for row in self._rows(forward, INPUT) if side_requiring(self._table, row) == side]
        if len(required) < len(rows) or not self._trains_nothing:
            return False
        return not any(self._is_part_of_another(side, row, forward) for row in required)

    def _is_part_of_another(self, side: int, row: int, forward: int) -> bool:
        """Return whether the call that made the tensor in a row gets a gradient on both sides."""
        leaf = (self._table.target, self._table.golden)[side][row]
        maker = self._flows[side].maker(None if leaf is None else leaf.raw, forward)
        if maker is None:
            return False
        name = self._table.entries[maker][side]
        backward = self._table.numbers_by_name[side].get(in_phase(str(name), Phase.BACKWARD.value))
        return backward is not None and self._table.entries[backward].of_both

    def _rows(self, entry: int, slot: str) -> Iterator[int]:
        for row in self._table.rows_of(entry):
            leaf = self._table.target[row] or self._table.golden[row]
            if leaf is not None and leaf.slot == slot:
                yield row

    @cached_property
    def _trains_nothing(self) -> bool:
        """Whether all that optimizers train are parameters of which both sides have the same gradients."""
        phase = Phase.PARAMETERS_GRAD.value
        gradients = [number for number, key in enumerate(self._table.keys) if key.phase == phase]
        if not all(map(self._agrees, gradients)):
            return False
        known = {name for number in gradients for name in self._names(number)}
        trained = [{name for step in optimizer_steps(dump) for name in step.parameters} for dump in self._dumps]
        return all(trained) and known.issuperset(set().union(*trained))

    def _names(self, entry: int) -> Iterator[str]:
        """Yield the names of the parameters in an entry of gradients."""
        path = path_of(self._table.keys[entry].stem)
        for row in self._table.rows_of(entry):
            leaf = self._table.target[row]
            if leaf is not None:
                yield f"{path}.{leaf.suffix.lstrip('.')}".lstrip(".")

    def _agrees(self, entry: int) -> bool:
        rows = self._table.rows_of(entry)
        return self._table.entries[entry].of_both and not (self._kind[rows.start : rows.stop] > RowKind.NONE).any()

    @cached_property
    def _flows(self) -> tuple[ValueFlow, ValueFlow]:
        target, golden = (ValueFlow(self._table, in_golden=bool(side), alone=frozenset()) for side in (0, 1))
        return target, golden
