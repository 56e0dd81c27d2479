"""Exemption for arguments that say how a call computes, or where it writes, and nothing about its result.

``relu(x, inplace=True)`` writes over ``x``. Whoever gets ``x`` later, and did not expect that, gets another tensor:
that is where a difference shows. ``requires_grad`` of a parameter says what a backward pass makes: where one side has
none, or both have the gradient of the parameter in the end, it has no effect.
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
        parameters = [row for row in rows if measured.role[row] == Role.PARAMETER]
        if parameters and _both_go_back(table):
            trained = _trained_by_both(table)
            parameters = [row for row in parameters if _parameter_of(table, row) in trained]
        return sorted([*parameters, *(row for row in rows if _is_flag(table, row))])


def _both_go_back(table: LeafTable) -> bool:
    """Return whether both sides record a backward pass."""
    backward = [table.entries[number][:2] for number, key in enumerate(table.keys) if key.phase != Phase.FORWARD.value]
    return all(any(pair[side] is not None for pair in backward) for side in (0, 1))


def _trained_by_both(table: LeafTable) -> set[tuple[str, str]]:
    """Return the parameters of which both sides have a gradient."""
    entries = (number for number, key in enumerate(table.keys) if key.phase == Phase.PARAMETERS_GRAD.value)
    rows = (row for number in entries for row in table.rows_of(number) if len(table.tensors(row)) > 1)
    return {_parameter_of(table, row) for row in rows}


def _parameter_of(table: LeafTable, row: int) -> tuple[str, str]:
    """Return the module and the name of the parameter, or of the gradient, in a row."""
    (entry,), leaf = table.entries_of([row]), table.target[row] or table.golden[row]
    return table.keys[entry].stem, "" if leaf is None else leaf.suffix.rpartition(".")[2]


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
