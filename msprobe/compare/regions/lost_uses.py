"""Why a call of both sides has a gradient on one side alone: there another call uses what it returns.

A term of a loss that one run leaves out is computed by both. What makes the difference is the call that adds it, and
the gradients of all calls before it are lost for no other reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.leaves import as_float
from msprobe.compare.records.likeness import EXACT, same_values
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.core.tensors.statistics import LARGEST


def only_use(table: LeafTable, entry: int) -> int | None:
    """Return the first later call of one side alone that gets what a call of both sides returns, whose gradient the
    same side alone has; None where a call of both sides gets it before, or none does.

    Args:
        table: both dumps.
        entry: the number of the backward entry of one side.
    """
    side = int(table.entries[entry].target is None)
    name = in_phase(table.entries[entry].name, Phase.FORWARD.value)
    forward = next((number for number, pair in enumerate(table.entries) if pair.of_both and pair[side] == name), None)
    if forward is None or table.keys[entry].phase != Phase.BACKWARD.value:
        return None
    results = [raw for raw in _tensors(table, forward, side, OUTPUT) if as_float(raw.get(LARGEST.name)) != 0.0]
    for number in range(forward + 1, len(table.entries)):
        if table.keys[number].phase != Phase.FORWARD.value or table.entries[number][side] is None:
            continue
        given = list(_tensors(table, number, side, INPUT))
        if any(
            raw.get("shape") == own.get("shape") and same_values(raw, own, EXACT) for raw in given for own in results
        ):
            return None if table.entries[number].of_both else number
    return None


def _tensors(table: LeafTable, entry: int, side: int, slot: str) -> Iterator[Mapping[str, Any]]:
    for row in table.rows_of(entry):
        leaf = (table.target, table.golden)[side][row]
        if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw):
            yield leaf.raw
