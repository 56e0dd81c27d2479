"""Take the differences out of a comparison that the user accepts, one first divergence after the other.

``accept_differences`` asks for the first divergence, as it is reported. Where an entry of the user means it, its rows
are accepted, what follows from them is looked at again (``numerics.followers``), and the next first divergence is asked
for. So an accepted difference hides no other one: what is left is the first difference that no entry means, and that is
more than what follows from accepted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from msprobe.analyze.first_divergence import Divergence, first_divergence
from msprobe.compare.accepted import accepts
from msprobe.compare.comparison import Comparison, StepHistory
from msprobe.compare.records.entries import Absence
from msprobe.compare.rows.levels import row_levels
from msprobe.compare.rows.summary import AcceptedDifference, AcceptedFinding, FirstDivergence
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.followers import follow
from msprobe.numerics.kinds import Level, Role, RowKind
from msprobe.numerics.verdict import Bools, Ints, Judged
from msprobe.trace.leaves import row_name, slot_of

_NEW = RowKind.ACCEPTED, RowKind.FOLLOWS_ACCEPTED, RowKind.HIDDEN_BY_ACCEPTED


@dataclass(frozen=True, slots=True)
class Accepted:
    """A comparison without the differences that are accepted.

    Args:
        comparison: the comparison; its first divergence is one that no entry means.
        findings: the findings that were accepted, in the order of execution.
        hidden: a sentence about values in which another fault would not be seen; empty where there are none.
    """

    comparison: Comparison
    findings: list[AcceptedFinding] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


def accept_differences(
    comparison: Comparison, entries: Sequence[AcceptedDifference], history: StepHistory, *, later_step: bool = False
) -> Accepted:
    """Return a comparison without the differences that ``entries`` accept.

    Args:
        comparison: one pair of dumps, compared with the same entries among its extras.
        entries: what the user accepts.
        history: what the steps before showed; the spread of this step is added.
        later_step: as in ``first_divergence``.
    """
    if not entries:
        return Accepted(comparison)
    work = _Acceptance(comparison, history.accepted_spread)
    findings: list[AcceptedFinding] = []
    found = None
    for _ in comparison.table.entries:  # each time one more of them is accepted
        found = first_divergence(work.comparison, later_step=later_step)
        number = None if found is None else _entry_for(found.description, entries)
        if found is None or number is None or not work.accept(found, entries[number]):
            break
        findings.append(AcceptedFinding(number, found.description.name))
    if found is not None:
        work.end_at(found.entry)
    history.accepted_spread = work.spread
    return Accepted(work.comparison, findings, work.hidden())


def _entry_for(found: FirstDivergence, entries: Sequence[AcceptedDifference]) -> int | None:
    return next((number for number, entry in enumerate(entries) if accepts(entry, found)), None)


class _Acceptance:
    """A comparison while differences are accepted in it; ``spread`` is that of ``follow``."""

    def __init__(self, comparison: Comparison, before: float) -> None:
        self.comparison, self.spread = comparison, before
        self._before, self._judged = before, comparison.judged
        self._rows = np.zeros(comparison.table.row_count, np.bool_)
        self._alone: set[int] = set()
        self._first = len(comparison.table.entries)
        if before > 0.0:
            self._judge_again()

    def accept(self, found: Divergence, entry: AcceptedDifference) -> bool:
        """Accept a first divergence; False where nothing of it was left to be accepted."""
        if found.entry == len(self.comparison.table.entries):  # no call is named, but settings
            self.comparison = replace(self.comparison, settings_accepted=True)
            return True
        count = int(self._rows.sum()), len(self._alone)
        for number in {found.entry, *self._named(found.description)}:
            self._accept_entry(number, found, entry)
        if (int(self._rows.sum()), len(self._alone)) == count:
            return False
        self._judge_again()
        return True

    def _named(self, found: FirstDivergence) -> Iterator[int]:
        """Yield the entries of one side that a finding names beside its own: a whole module, or the same call later."""
        for number, pair in enumerate(self.comparison.table.entries):
            if not pair.of_both and (found.target, found.golden)[pair.target is None] == pair.name:
                yield number

    def _accept_entry(self, number: int, found: Divergence, entry: AcceptedDifference) -> None:
        self._first = min(self._first, number)
        pair = self.comparison.table.entries[number]
        if not pair.of_both or number in self.comparison.table.changed:
            self._alone.add(number)
            return
        differing = [row for row in self.comparison.table.rows_of(number) if self._differs[row]]
        own = differing
        if entry.slot is not None and found.description.slot == entry.slot and found.description.name == pair.sided:
            own = [row for row in differing if self._slot(row) == entry.slot] or differing
        role = self.comparison.measured.role
        if any(
            role[row] != Role.RESULT for row in own
        ):  # no number says how far the results of another argument differ
            own = own + [row for row in differing if role[row] == Role.RESULT]
        self._rows[own] = True

    @property
    def _differs(self) -> Bools:
        return self.comparison.judged.kind > RowKind.UNCHECKED

    def _slot(self, row: int) -> str | None:
        leaf = self.comparison.table.target[row] or self.comparison.table.golden[row]
        return None if leaf is None else slot_of(leaf)

    def _judge_again(self) -> None:
        """Give the rows of accepted differences, and what follows from them, their kinds."""
        measured, old = self.comparison.measured, self._judged
        kind, self.spread = follow(measured, old.kind, self._rows, self._first, self._before)
        level = np.where(np.isin(kind, _NEW), np.minimum(old.level, Level.WARNING), old.level)
        self._set(kind, level)

    def end_at(self, entry: int) -> None:
        """Let a first divergence that is not accepted be an error, and what follows from it be judged as ever."""
        if entry == len(self.comparison.table.entries):
            return
        table, judged = self.comparison.table, self.comparison.judged
        kind, level = judged.kind.copy(), judged.level.copy()
        start, end = int(table.starts[entry]), int(table.starts[entry + 1])
        level[start:end] = np.where(kind[start:end] > RowKind.UNCHECKED, Level.ERROR, level[start:end])
        later = ~self._rows
        later[:end] = False
        kind[later], level[later] = self._judged.kind[later], self._judged.level[later]
        self._set(kind, level)

    def _set(self, kind: Ints, level: Ints) -> None:
        comparison, old = self.comparison, self._judged
        judged = Judged(level, kind, old.noise, old.times, old.tolerance)
        table = self._table()
        levels = row_levels(table, judged, comparison.policy)
        self.comparison = replace(comparison, table=table, judged=judged, row_levels=levels, end=None)

    def _table(self) -> LeafTable:
        """Return the table with the accepted entries of one side."""
        table = self.comparison.table
        entries = list(table.entries)  # the new table holds it, too
        for number in self._alone:
            entries[number] = entries[number]._replace(absence=Absence.ACCEPTED)
        changed = {number: value for number, value in table.changed.items() if number not in self._alone}
        return replace(table, entries=entries, changed=changed)

    def hidden(self) -> list[str]:
        """Return a sentence about the values in which another fault would not be seen."""
        rows = (self.comparison.judged.kind == RowKind.HIDDEN_BY_ACCEPTED).nonzero()[0]
        if not rows.size:
            return []
        table = self.comparison.table
        leaf, number = table.target[rows[0]] or table.golden[rows[0]], int(table.entry_of_row()[rows[0]])
        name = table.entries[number].name if leaf is None else row_name(table.entries[number].name, leaf)
        values = "1 value follows" if rows.size == 1 else f"{rows.size} values follow"
        return [
            f"{values} from accepted differences that are too large to see another fault there, the first: {name}; "
            "accept less, or compare from there on with equal inputs"
        ]
