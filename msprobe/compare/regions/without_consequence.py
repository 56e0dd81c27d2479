"""The entries of both sides that differ without consequence, by all that can excuse a difference.

What does not leave the step, or is beside what is wrong in the end (``regions.harmless``), is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.regions.harmless import HarmlessDifferences
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.step_end import StepEnd
from msprobe.numerics.verdict import Judged, Level, Measured, Role, RowKind

_TO_OTHERS = frozenset(f"Distributed.{function}" for function in ("send", "isend", "reduce", "gather"))


class WithoutConsequence(NamedTuple):
    """What differs without consequence, by the rule that says so.

    Attributes:
        differences: what finds them, and what leaves the step.
        entries: the entries of both sides that one of them excuses; none in two different programs.
    """

    differences: HarmlessDifferences
    entries: frozenset[int]


class ConsequenceRules(NamedTuple):
    """Finds what differs without consequence.

    Attributes:
        table: both dumps.
        dumps: the dumps that it was made of.
        contradictions: the rows of tensors whose files differ while their records are equal. No code makes such a
            difference, so that no rule about code excuses it.
    """

    table: LeafTable
    dumps: ComparedDumps
    contradictions: Sequence[int] = ()

    def judged(self, measured: Measured, judged: Judged) -> tuple[LeafTable, StepEnd | None]:
        """Return the table of two dumps that make the same calls, with what differs without consequence, and what
        leaves the step where it was looked for. These differences become warnings in ``judged``."""
        if self.dumps.policy is Policy.REFERENCE:
            return self.table, None
        excused = self.lower_levels(measured, judged)
        table = replace(self.table, harmless=excused.entries) if excused.entries else self.table
        return table, excused.differences.end

    def lower_levels(self, measured: Measured, judged: Judged) -> WithoutConsequence:
        """Return what ``of`` returns, and make warnings of it in ``judged``."""
        excused = self.of(measured, judged)
        for rows in map(self.table.rows_of, excused.entries):
            judged.level[rows.start : rows.stop] = np.minimum(judged.level[rows.start : rows.stop], Level.WARNING)
        return excused

    def of(self, measured: Measured, judged: Judged) -> WithoutConsequence:
        """Return what differs without consequence by these verdicts."""
        differences = HarmlessDifferences(self.table, self.dumps, measured, judged)
        damaged = self._damaged(judged) | self._sent(measured, judged, differences.differing)
        excused = differences.turned if self.table.loose else differences.turned | differences.entries
        excused -= damaged
        rest = [number for number in differences.differing if number not in excused | damaged]
        excused |= differences.ending_with_step(rest)
        excused |= differences.beside_stretches(number for number in rest if number not in excused)
        return WithoutConsequence(differences, excused)

    def _damaged(self, judged: Judged) -> frozenset[int]:
        """Return the entries with a tensor file that is not what was recorded, or copies of which ranks have others."""
        wrong = [row for row in self.contradictions if judged.kind[row] > RowKind.UNCHECKED]
        wrong += (judged.kind == RowKind.COPIES_DIFFER).nonzero()[0].tolist()
        return frozenset(self.table.entries_of(wrong))

    def _sent(self, measured: Measured, judged: Judged, differing: Sequence[int]) -> frozenset[int]:
        """Return the calls that give another rank something else, which no result of their own shows."""
        return frozenset(
            number
            for number in differing
            if self.table.keys[number].stem in _TO_OTHERS
            and any(
                judged.kind[row] == RowKind.VALUE and measured.role[row] == Role.INPUT
                for row in self.table.rows_of(number)
            )
        )
