"""Pairs of calls that have nothing but their name in common: both sides compute the same by another formula.

``(a + b) / 2`` and ``0.5 * a + 0.5 * b`` both add, and what they add differs. Such a pair says nothing by itself: what
the formula passes on decides. Wrong pairs, and the calls of one side between them, form a formula as far as values flow
from one to the next (``formula_search``). It is without consequence if all that goes on with its values agrees: calls
of both sides that get them, and modules that return them.

A value that nothing recorded gets has to be one that the other side makes too (the loss), and no call after it in the
same pass may differ. Gradients of one tensor add up outside of all calls; those that nothing gets are right if all
later gradients agree, and there are some.

What never belongs to another formula: a module; a call that makes other results of the same inputs; another argument
without another result, whose effect may be below rounding in this step only; a value that differs although neither
side has code of its own that made it; NaN or infinity of one side. And what leaves a formula has to be much closer than
what is inside, whatever its tolerance is.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from functools import cached_property
from typing import TYPE_CHECKING

from msprobe.compare.records.entries import OF_PARAMETERS, phases_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.numerics.verdict import Judged, Measured

if TYPE_CHECKING:
    from msprobe.compare.regions.formulas.formula_search import Formula


class OtherFormulas:
    """Finds the pairs of calls in formulas that are written otherwise.

    Args:
        table: both dumps.
        measured: the differences of all rows, with their roles.
        judged: the verdicts of all rows.
        alone: the entries of one side that nothing excuses.
        differing: the entries of both sides that differ with consequence, as far as is known yet.
    """

    def __init__(
        self, table: LeafTable, measured: Measured, judged: Judged, alone: Set[int], differing: Collection[int]
    ) -> None:
        self._table, self._measured, self._judged = table, measured, judged
        self._alone, self._differing = alone, frozenset(differing)

    @cached_property
    def entries(self) -> frozenset[int]:
        """The entries of both sides that differ in such a formula."""
        if not self._differing:
            return frozenset()
        forward = self._closed(None)
        return forward | self._closed(forward)

    def _closed(self, forward: Set[int] | None) -> frozenset[int]:
        """Return the pairs of all formulas of a pass that are without consequence; ``forward`` as in
        ``FormulaSearch``."""
        from msprobe.compare.regions.formulas.formula_search import (  # loaded where runs differ
            MUCH_CLOSER,
            FormulaSearch,
        )

        search = FormulaSearch(self._table, self._measured, self._judged, self._alone, self._differing, forward)
        found = [formula for formula in search.run() if formula.leaving <= MUCH_CLOSER * formula.inside]
        backward = forward is not None
        ending = [formula for formula in found if formula.unused]
        ending = [f for f in ending if search.is_made_otherwise(f) or (backward and self._has_right_after(f))]
        closed = [formula for formula in found if not formula.unused]
        remaining = self._differing - _pairs([*closed, *ending])
        closed += [formula for formula in ending if not self._differs_after(formula, remaining, backward=backward)]
        return _pairs(closed)

    def _has_right_after(self, formula: Formula) -> bool:
        """Return whether gradients after the first of a formula agree."""
        phases = phases_of(backward=True)
        entries, keys = self._table.entries, self._table.keys
        return any(
            entries[number].of_both and keys[number].phase in phases and number not in self._differing
            for number in range(formula.first, len(keys))
        )

    def _differs_after(self, formula: Formula, remaining: Set[int], *, backward: bool) -> bool:
        """Return whether another call differs in the same pass after the beginning of a formula."""
        phases, keys = phases_of(backward=backward), self._table.keys
        for number in range(formula.first, len(keys)):
            if not backward and keys[number].phase == Phase.BACKWARD.value:
                return False
            if number in remaining and keys[number].phase in phases and keys[number].parent not in OF_PARAMETERS:
                return True
        return False


def _pairs(formulas: Collection[Formula]) -> frozenset[int]:
    return frozenset(number for formula in formulas for number in formula.pairs)
