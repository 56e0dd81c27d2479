"""The calls of both sides of a table and their tensors: what looks for values that leave a step reads them here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import OF_PARAMETERS, EntryKey, is_module, stem_of
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.twins import Mark, Raw, mark_of
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, is_tensor
from msprobe.core.tensors.statistics import LARGEST
from msprobe.trace.leaves import as_float, element_count, is_shape
from msprobe.trace.likeness import is_float, is_part


class Sink(NamedTuple):
    """A value that leaves a step: the entry that makes it, its row and its record."""

    entry: int
    row: int
    raw: Raw


class Sides:
    """The calls of target (0) and golden run (1); entries and rows are numbers in the table."""

    def __init__(self, table: LeafTable) -> None:
        self._table = table

    def key(self, entry: int) -> EntryKey:
        """Return the parsed name of an entry."""
        return self._table.keys[entry]

    def leaves(self, side: int, entry: int, slot: str) -> Iterator[tuple[int, Raw]]:
        """Yield the tensors that a side has in a slot of an entry, with their rows."""
        leaves = (self._table.target, self._table.golden)[side]
        for row in self._table.rows_of(entry):
            leaf = leaves[row]
            if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw):
                yield row, leaf.raw

    def forward(self, side: int) -> Iterator[int]:
        """Yield the forward calls of a side, but those for parameters and what checkpointing repeats."""
        for entry, key in enumerate(self._table.keys):
            if self._table.entries[entry][side] is None or key.phase != Phase.FORWARD.value or key.recompute:
                continue
            if key.parent not in OF_PARAMETERS:
                yield entry

    def innermost(self, side: int) -> Iterator[int]:
        """Yield the forward calls of a side that call no other one."""
        entries = list(self.forward(side))
        around = {self.key(entry).parent for entry in entries}
        for entry in entries:
            key = self.key(entry)
            if not is_module(key) or key.stem not in around:
                yield entry

    def are_called_as_often(self, entry: int) -> bool:
        """Return whether both sides call the function or module of an entry as often, under the name each has for
        it."""
        target, golden = (self._calls[side][self._own_stem(side, entry)] for side in (0, 1))
        return target == golden

    @cached_property
    def _calls(self) -> list[Counter[str]]:
        """By side how often each function and module is called."""
        return [Counter(self._own_stem(side, entry) for entry in self.forward(side)) for side in (0, 1)]

    def _own_stem(self, side: int, entry: int) -> str:
        pair = self._table.entries[entry]
        return stem_of((pair.golden if side else pair.target) or "")

    def scalars(self, side: int, entry: int, slot: str) -> Iterator[tuple[int, Raw]]:
        return (value for value in self.leaves(side, entry, slot) if element_count(value[1]) == 1)

    def backward_of(self, entry: int, side: int) -> int | None:
        name = self._table.entries[entry][side]
        return self._table.numbers_by_name[side].get(in_phase(str(name), Phase.BACKWARD.value))

    @property
    def go_back(self) -> bool:
        """Whether a backward call is recorded."""
        return any(key.phase == Phase.BACKWARD.value for key in self._table.keys)

    def gradients_of(self, side: int, entry: int) -> Iterator[float]:
        """Yield the numbers that the backward call of an entry gets."""
        backward = self.backward_of(entry, side)
        given = () if backward is None else self.scalars(side, backward, INPUT)
        return (as_float(raw.get(LARGEST.name)) for _, raw in given)


class Uses:
    """The calls outside of all modules, and of the outermost ones, by what they get; those of all modules by their
    parameters, which a program may make (``torch.func.functional_call``).

    Args:
        sides: the calls of both sides.
        side: the target (0) or golden run (1).
    """

    def __init__(self, sides: Sides, side: int) -> None:
        self._side = side
        self._by_value: dict[Mark, list[int]] = {}
        self._parts: list[tuple[int, Raw]] = []
        made = frozenset(mark_of(raw) for entry in sides.forward(side) for _, raw in sides.leaves(side, entry, OUTPUT))
        for entry in sides.forward(side):
            for _, parameter in sides.leaves(side, entry, PARAMETER):
                self._by_value.setdefault(mark_of(parameter), []).append(entry)
            if sides.key(entry).parent:
                continue
            for _, given in sides.leaves(side, entry, INPUT):
                self._by_value.setdefault(mark_of(given), []).append(entry)
                if is_float(given) and mark_of(given) not in made:
                    self._parts.append((entry, given))

    def of_whole(self, raw: Raw) -> Sequence[int]:
        """Return the calls that get a value."""
        return self._by_value.get(mark_of(raw), ())

    def of(self, raw: Raw, after: int) -> Iterator[int]:
        """Yield the calls after an entry that get a value, or what may be a part of it: a smaller value that no
        recorded call makes."""
        found = {*self.of_whole(raw), *(entry for entry, _ in self._parts_of(raw, after))}
        return (entry for entry in sorted(found) if entry > after)

    def slices_of(self, raw: Raw, after: int) -> list[Raw]:
        """Return what calls after an entry get that may be a slice of a value: its shape without an axis, or with one
        that is shorter."""
        return [part for _, part in self._parts_of(raw, after) if _is_slice(part.get("shape"), raw.get("shape"))]

    def _parts_of(self, raw: Raw, after: int) -> Iterator[tuple[int, Raw]]:
        count = element_count(raw)
        for entry, part in self._parts:
            if entry > after and element_count(part) < count and is_part(part, raw):
                yield entry, part


def _is_slice(shape: Any, whole: Any) -> bool:
    known: bool = is_shape(shape) and is_shape(whole)
    if known and len(shape) == len(whole):
        return bool(sum(own != other for own, other in zip(shape, whole, strict=True)) == 1)
    return known and any(list(shape) == whole[:axis] + whole[axis + 1 :] for axis in range(len(whole)))
