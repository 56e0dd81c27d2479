"""The protocol of exemptions: what one of them can say about the table of a comparison, and when it is asked.

A comparison runs a tuple of exemptions (see ``on_demand.EXEMPTIONS``). Each of them is asked in this order: before
anything is measured, when kinds are known without a tolerance, twice when all differences are measured, and when the
answer is put into words. An exemption overrides the methods that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import Dump
from msprobe.numerics.verdict import Ints, Measured

if TYPE_CHECKING:
    from msprobe.compare.inputs.slices import TensorSlices
    from msprobe.compare.requests.token_axes import TokenAxes


class ComparedDumps(NamedTuple):
    """The two dumps behind a table, and how they are compared.

    ``slices`` are the parts of their tensors, None for whole ones; ``request`` finds the parts of one request.
    ``next_agrees`` returns whether the next step of both runs computes the same forward; None where there is none.
    """

    target: Dump
    golden: Dump
    mode: Mode
    policy: Policy
    slices: tuple[TensorSlices | None, TensorSlices | None] = (None, None)
    request: TokenAxes | None = None
    next_agrees: Callable[[], bool] | None = None


class Exemption:
    """One reason why a difference is none, or why values are not judged. The methods of this class exempt nothing."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with what this exemption changes: pairs of leaves, and entries whose absence is benign.

        Raises:
            NotComparableError: the dumps have nothing in common.
        """
        return table

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of differences that are none. ``kinds`` has a number of ``RowKind`` per row, as far as kinds
        are known without a tolerance; it is changed in place."""

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows whose differences mean nothing, ascending."""
        return ()

    def remarks(self, table: LeafTable) -> list[str]:
        """Return sentences about values that are recorded in another way, and were compared as far as they mean the
        same; they are no gaps."""
        return []

    def rows_without_effect(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows of inputs that differ and change no result, ascending."""
        return ()

    def notes(self, table: LeafTable) -> list[str]:
        """Return sentences about values that were not judged because of this exemption."""
        return []
