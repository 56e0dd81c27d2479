"""What an exported program does not say of its calls, beside a run of the program that it was exported from.

``torch.export`` keeps operators. A call of a module, and of a function that became several operators, is put together
from them again: its tensors are known, in the order of their first use, each once. Other arguments are lost. The
record of such a call says so by a keyword argument (``record_walk.LOST_ARGUMENTS``). What the other side alone has of
the call, and inputs that pair by another order, are not judged; each input is judged where it is made. Results are
judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.records.call_source import in_phase
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor, lost_arguments
from msprobe.core.tensors.statistics import NORM
from msprobe.numerics.verdict import Ints, RowKind
from msprobe.trace.leaves import as_float

_ALONE = int(RowKind.MISSING_IN_GOLDEN), int(RowKind.MISSING_IN_TARGET), int(RowKind.ARGUMENT)
_CLOSE = 1e-3


class ExportedCalls(Exemption):
    """Excuses arguments of paired calls that an exported program lacks or has in another order, and their gradients."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the entries of calls whose arguments are lost on one side."""
        sides = [
            {name for name, record in dump.data.items() if lost_arguments(record)}
            for dump in (dumps.target, dumps.golden)
        ]
        lost = (
            number
            for number, pair in enumerate(table.entries)
            if pair.of_both
            and any(
                in_phase(str(name), Phase.FORWARD.value) in side
                for name, side in zip((pair.target, pair.golden), sides, strict=True)
            )
        )
        return replace(table, lost_arguments=frozenset(lost))

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of what one side alone has of such a call, and of arguments in another order."""
        for number in table.lost_arguments:
            rows = np.array(list(_argument_rows(table, number)), np.int64)
            if not len(rows):
                continue
            kinds[rows[np.isin(kinds[rows], _ALONE)]] = RowKind.UNCHECKED
            if _has_other_order(table, rows):
                kinds[rows[kinds[rows] >= RowKind.VALUE]] = RowKind.UNCHECKED

    def remarks(self, table: LeafTable) -> list[str]:
        """Return how many calls are meant."""
        count = len(table.lost_arguments)
        return [f"{count} entries are calls put together from the operators of an exported program"] if count else []


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
