"""Which calls get a value, or a part of it: what a program makes of the results of its modules."""

from __future__ import annotations

from collections.abc import Iterator

from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sides import Sides
from msprobe.compare.verdict.twins import Mark, Raw, mark_of
from msprobe.core.store.record_walk import INPUT, OUTPUT
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import is_float, is_part


class Uses:
    """The calls outside of all modules, and of the outermost ones, by what they get.

    Args:
        table: both dumps.
        sides: their calls.
        side: the target (0) or golden run (1).
    """

    def __init__(self, table: LeafTable, sides: Sides, side: int) -> None:
        self._side = side
        self._by_value: dict[Mark, list[int]] = {}
        self._parts: list[tuple[int, Raw]] = []
        made = frozenset(mark_of(raw) for entry in sides.forward(side) for _, raw in sides.leaves(side, entry, OUTPUT))
        for entry in sides.forward(side):
            if sides.key(entry).parent:
                continue
            for row, given in sides.leaves(side, entry, INPUT):
                piece = _before_joining(table, side, row, given)
                for mark in {mark_of(given), mark_of(piece)}:
                    self._by_value.setdefault(mark, []).append(entry)
                if is_float(piece) and mark_of(piece) not in made:
                    self._parts.append((entry, piece))

    def of(self, raw: Raw, after: int) -> Iterator[int]:
        """Yield the calls after an entry that get a value, or what may be a part of it: a smaller value that no
        recorded call makes."""
        found = set(self._by_value.get(mark_of(raw), ()))
        count = element_count(raw)
        for entry, part in self._parts:
            if entry > after and entry not in found and element_count(part) < count and is_part(part, raw):
                found.add(entry)
        return (entry for entry in sorted(found) if entry > after)


def _before_joining(table: LeafTable, side: int, row: int, given: Raw) -> Raw:
    """Return what a call gets in a row, as it was before it was put together."""
    joined = table.together.get(row)
    return joined.piece if joined is not None and joined.in_golden == bool(side) and joined.piece else given
