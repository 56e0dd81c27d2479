"""What an exported program, or a model file, does not say of its calls, beside a run of the program it was made of.

``torch.export`` keeps operators. A call of a module, and of a function that became several operators, is put together
from them again: its tensors are known, in the order of their first use, each once. Other arguments are lost. The
record of such a call says so by a keyword argument (``record_walk.LOST_ARGUMENTS``). What the other side alone has of
the call, and inputs that pair by another order, are not judged; each input is judged where it is made. Results are
judged.

A model file has nodes. The record of a module made of them (``offline_models/recorded_model.py``) has the value that
enters it, the last one that leaves it, and the weights that its nodes read. Further arguments and results of the
module, and parameters that the exporter folded into others, are in the record of the program only: they are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.records.call_source import in_phase
from msprobe.compare.records.entries import EntryPair
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor, lost_arguments
from msprobe.core.tensors.statistics import NORM
from msprobe.numerics.verdict import Ints, RowKind
from msprobe.trace.leaves import as_float

_ALONE = int(RowKind.MISSING_IN_GOLDEN), int(RowKind.MISSING_IN_TARGET), int(RowKind.ARGUMENT)
_CLOSE = 1e-3


class ExportedPrograms(Exemption):
    """Excuses what the exported side lacks of paired calls, and arguments that it has in another order, with their
    gradients."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Find the calls whose arguments are lost on one side, and the side that is a model file, if only one is."""
        both = dumps.target, dumps.golden
        files = ["model_file" in dump.header for dump in both]
        self._file = files.index(True) if files.count(True) == 1 else None
        sides = [{name for name, record in dump.data.items() if lost_arguments(record)} for dump in both]
        self._calls = [
            number
            for number, pair in _pairs(table)
            if any(
                in_phase(str(name), Phase.FORWARD.value) in side
                for name, side in zip((pair.target, pair.golden), sides, strict=True)
            )
        ]
        return table

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of what one side alone has of such a call, of arguments that are no tensors, which nodes have
        as attributes, and of arguments in another order."""
        if self._file is not None:
            _leave_unchecked(kinds, [row for number, _ in _pairs(table) for row in table.rows_of(number)])
        for number in self._calls:
            rows = _leave_unchecked(kinds, list(_argument_rows(table, number)))
            if len(rows) and _has_other_order(table, rows):
                kinds[rows[kinds[rows] >= RowKind.VALUE]] = RowKind.UNCHECKED

    def remarks(self, table: LeafTable) -> list[str]:
        """Return how many calls are meant, and how many values a file does not have."""
        remarks = []
        if self._file is not None:
            own = (table.target, table.golden)[self._file]
            count = sum(own[row] is None for number, _ in _pairs(table) for row in table.rows_of(number))
            side = ("target", "golden run")[self._file]
            if count:
                lacks = f"lacks {count} arguments, results and parameters of modules"
                remarks.append(f"the {side} is a model file, which {lacks}")
        if self._calls:
            remarks.append(
                f"{len(self._calls)} entries are calls put together from the operators of an exported program"
            )
        return remarks


def _pairs(table: LeafTable) -> Iterator[tuple[int, EntryPair]]:
    return ((number, pair) for number, pair in enumerate(table.entries) if pair.of_both)


def _leave_unchecked(kinds: Ints, numbers: list[int]) -> Ints:
    rows = np.array(numbers, np.int64)
    kinds[rows[np.isin(kinds[rows], _ALONE)]] = RowKind.UNCHECKED
    return rows


def _argument_rows(table: LeafTable, number: int) -> Iterator[int]:
    """Yield the rows of the arguments of a call, or of their gradients."""
    slot = OUTPUT if table.keys[number].phase == Phase.BACKWARD.value else INPUT
    for row in table.rows_of(number):
        leaf = table.target[row] or table.golden[row]
        if leaf is not None and leaf.slot == slot:
            yield row


def _has_other_order(table: LeafTable, rows: Ints) -> bool:
    """Return whether the two sides have tensors of the call in another number, or the same ones in another order."""
    sides = [[side[row] for row in rows.tolist()] for side in (table.target, table.golden)]
    target, golden = ([leaf.raw for leaf in side if leaf is not None and is_tensor(leaf.raw)] for side in sides)
    if len(target) != len(golden):
        return True
    in_order = all(_close(one, other) for one, other in zip(target, golden, strict=True))
    return not in_order and all(any(_close(one, other) for other in golden) for one in target)


def _close(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if (one["dtype"], one["shape"]) != (other["dtype"], other["shape"]):
        return False
    left, right = one.get(NORM.name), other.get(NORM.name)
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return one.get("md5") == other.get("md5")
    left, right = as_float(left), as_float(right)
    return abs(left - right) <= _CLOSE * max(abs(left), abs(right))
