"""Exemption for inputs that differ between two programs and change nothing.

Two programs may give a call other numbers where these do not matter: ``-1e4`` added to a score that a mask hides, or
put in its place; a mask of numbers or of truth values; minus infinity or the smallest number. Where one of the two
values is the result of a call that only that program makes, and all results of the call agree as far as rounding goes,
the input is no divergence. Where it matters to another call, the results of that call tell. What no call has made is
state of the model (running statistics), and stays a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import OUTPUT
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Bools, Measured, Role, RowKind, beyond_rounding
from msprobe.trace.leaves import as_float, element_count


class UnusedInputs(Exemption):
    """Finds the inputs of two different programs that differ, in calls whose results agree."""

    def rows_without_effect(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of inputs that differ and change no result, ascending."""
        if not table.loose or table.checksums:
            return ()
        differs = beyond_rounding(measured) | (measured.kind > RowKind.UNCHECKED)
        inputs = differs & (measured.role == Role.INPUT) & (measured.kind < RowKind.MISSING_IN_GOLDEN)
        entries = np.unique(table.entry_of_row()[inputs]).tolist()
        agreeing = [entry for entry in entries if _results_agree(table, measured, entry, differs)]
        if not agreeing:
            return ()
        made = _results_of_one_side(table)
        return [row for entry in agreeing for row in table.rows_of(entry) if inputs[row] and _is_made(table, row, made)]


def _results_agree(table: LeafTable, measured: Measured, entry: int, differs: Bools) -> bool:
    """Return whether nothing but inputs differs in an entry, and it has a result that was compared."""
    others = [row for row in table.rows_of(entry) if measured.role[row] != Role.INPUT]
    if any(differs[row] for row in others):
        return False
    return any(measured.role[row] == Role.RESULT and _is_compared(table, measured, row) for row in others)


_Fingerprint = tuple[Any, ...]


def _results_of_one_side(table: LeafTable) -> set[_Fingerprint]:
    """Return what recognises the results of calls that only one program makes."""
    alone = (number for number, pair in enumerate(table.entries) if pair.target is None or pair.golden is None)
    return {_fingerprint(raw) for number in alone for side in (0, 1) for _, raw in table.values(side, number, OUTPUT)}


def _is_made(table: LeafTable, row: int, made: set[_Fingerprint]) -> bool:
    """Return whether the value of a side is among the results ``made``."""
    return any(_fingerprint(raw) in made for raw in table.tensors(row))


def _fingerprint(raw: dict[str, Any]) -> _Fingerprint:
    return element_count(raw), *(as_float(raw.get(name)) for name in STATISTIC_NAMES)


def _is_compared(table: LeafTable, measured: Measured, row: int) -> bool:
    return bool(measured.kind[row] == RowKind.NONE) and len(table.tensors(row)) == 2
