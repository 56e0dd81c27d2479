"""Exemption for arguments that say how a call computes, or where it writes, and nothing about its result.

``relu(x, inplace=True)`` writes over ``x``. Whoever gets ``x`` later, and did not expect that, gets another tensor:
that is where a difference shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.table.call_arguments import parameter_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import INPUT
from msprobe.numerics.verdict import Measured, RowKind

FLAGS = frozenset({"inplace", "non_blocking", "foreach", "fused"})
"""Names of such arguments."""


class ImplementationFlags(Exemption):
    """Finds these arguments where both sides give another one."""

    def rows_without_effect(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of these arguments that differ, ascending."""
        rows = (measured.kind == RowKind.ARGUMENT).nonzero()[0].tolist()
        return [row for row in rows if _is_flag(table, row)]


def _is_flag(table: LeafTable, row: int) -> bool:
    leaves = table.target[row], table.golden[row]
    (entry,) = table.entries_of([row])
    return all(
        leaf is not None
        and leaf.slot == INPUT
        and isinstance(leaf.raw, dict)
        and leaf.raw.get("type") == "bool"
        and parameter_of(table.keys[entry].stem, leaf) in FLAGS
        for leaf in leaves
    )
