"""Exemption for arguments that say how a call computes, or where it writes, and nothing about its result.

``relu(x, inplace=True)`` writes over ``x``. Whoever gets ``x`` later, and did not expect that, gets another tensor:
that is where a difference shows. ``requires_grad`` of a parameter says what a backward pass makes: where one side has
none, it has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from msprobe.compare.exemptions.protocol import Exemption
from msprobe.compare.table.call_arguments import parameter_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT
from msprobe.numerics.verdict import Measured, Role, RowKind

FLAGS = frozenset({"inplace", "non_blocking", "foreach", "fused"})
"""Names of such arguments."""


class ImplementationFlags(Exemption):
    """Finds these arguments where both sides give another one."""

    def rows_without_effect(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of these arguments that differ, ascending."""
        rows = (measured.kind == RowKind.ARGUMENT).nonzero()[0].tolist()
        parameters = [] if _both_go_back(table) else [row for row in rows if measured.role[row] == Role.PARAMETER]
        return sorted([*parameters, *(row for row in rows if _is_flag(table, row))])


def _both_go_back(table: LeafTable) -> bool:
    """Return whether both sides record a backward pass."""
    backward = [table.entries[number][:2] for number, key in enumerate(table.keys) if key.phase != Phase.FORWARD.value]
    return all(any(pair[side] is not None for pair in backward) for side in (0, 1))


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
