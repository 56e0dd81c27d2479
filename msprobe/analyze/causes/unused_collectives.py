"""A collective whose result one side does not go on with: a copy was reduced, or the result was written elsewhere.

Both runs call the collective with the same values and get the same result, so it agrees. The first value that differs
later is its result in one run, and what was given to it in the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.after_backward.lost_reductions import lost_reduction
from msprobe.compare.comparison import Comparison
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import is_communication
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor
from msprobe.numerics.verdict import RowKind
from msprobe.trace.likeness import same_values


class UnusedResult(NamedTuple):
    """What one side does not use.

    Args:
        entry: the number of the collective.
        row: the row of the later value that shows it.
        in_golden: whether the golden run is the side that goes on without the result.
    """

    entry: int
    row: int
    in_golden: bool

    @property
    def text(self) -> str:
        """The sentence about it."""
        side, other = ("golden run", "target") if self.in_golden else ("target", "golden run")
        return (
            f"the {side} goes on with what it gave to this call, the {other} with what the call returned "
            "(a copy was communicated, or its result not used)"
        )


def unused_result(comparison: Comparison, entry: int) -> UnusedResult | None:
    """Return the collective before an entry whose result explains a value of the entry that differs, None without one.

    Args:
        comparison: the compared pair.
        entry: the first entry that differs; both sides have it.
    """
    table = comparison.table
    rows = [row for row in table.rows_of(entry) if comparison.judged.kind[row] == RowKind.VALUE]
    collectives = [
        number
        for number, pair in enumerate(table.entries[: entry if rows else 0])
        if pair.of_both and is_communication(pair.name)
    ]
    candidates = itertools.product(reversed(collectives), rows, (False, True))
    found = (UnusedResult(*candidate) for candidate in candidates if _explains(table, *candidate))
    return next(found, None) or next(_lost(comparison, entry, rows), None)


def _lost(comparison: Comparison, entry: int, rows: Sequence[int]) -> Iterator[UnusedResult]:
    """Yield the collective that adds up a buffer of which a value of the entry is a part on one side, where the other
    side goes on with what it had."""
    table, name = comparison.table, comparison.table.entries[entry].name
    for row in rows:
        raws = [_tensor(table.leaf(side, row)) for side in (0, 1)]
        dumps = comparison.target, comparison.golden
        calls = [
            None if raw is None else lost_reduction(dump, raw, name) for dump, raw in zip(dumps, raws, strict=True)
        ]
        for side in (0, 1):
            own = calls[side]
            if own is not None and calls[1 - side] is None and own in table.numbers_by_name[side]:
                yield UnusedResult(table.numbers_by_name[side][own], row, in_golden=bool(side))


def _explains(table: LeafTable, collective: int, row: int, in_golden: bool) -> bool:
    """Return whether a value is an input of a collective on one side, and a result of it on the other."""
    kept, used = (_tensor(table.leaf(side, row)) for side in (int(in_golden), int(not in_golden)))
    if kept is None or used is None or same_values(kept, used):
        return False
    given, made = table.values(in_golden, collective, INPUT), table.values(not in_golden, collective, OUTPUT)
    return any(same_values(kept, raw) for _, raw in given) and any(same_values(used, raw) for _, raw in made)


def _tensor(leaf: Leaf | None) -> Mapping[str, Any] | None:
    return leaf.raw if leaf is not None and is_tensor(leaf.raw) else None
