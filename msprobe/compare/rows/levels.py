"""The level of each row, decided in one place for counts, tables, graphs and the first divergence.

The judge gives a level to every pair of values (``numerics.verdict``). Two things are decided afterwards, because they
depend on the whole table: a value that only one side has is never worse than a warning, and an entry that an exemption
excuses, or makes an error, gets the level of its excuse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from msprobe.compare.inputs.mode import Policy
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.verdict import Bools, Ints, Judged, Level, RowKind

LEVEL_NAMES = tuple(level.name.lower() for level in Level)

_RECOMPUTED = "recomputed forward call, on one side only, with the values of the call it repeats"
_UNMATCHED_RECOMPUTE = "warning: recomputed forward call, on one side only, and no call with values that it repeats"
_CUT_OFF = "the other run ended before this call"


class Excuse(NamedTuple):
    """The level of some consecutive rows of one entry, which replaces the level of the judge.

    ``message`` is what the result table says about each of these rows. It is empty where the message of the judge
    stays.
    """

    rows: range
    level: Level
    message: str


class RowLevels(NamedTuple):
    """The levels of all rows of a table.

    ``levels`` has a number of ``Level`` per row. ``excuses`` has the excuse of each entry that has one, by the number
    of the entry. ``diverging`` says of each entry whether it is a divergence by itself.
    """

    levels: Ints
    excuses: dict[int, Excuse]
    diverging: Bools

    def names(self) -> list[str]:
        """Return ``pass``, ``warning`` or ``error`` for every row."""
        return [LEVEL_NAMES[level] for level in self.levels.tolist()]


def row_levels(table: LeafTable, judged: Judged, policy: Policy = Policy.DEFAULT) -> RowLevels:
    """Return the level of every row of ``table``.

    Under the policy ``reference`` the published thresholds decide about the rows of every entry that has no excuse
    (see ``reference_policy``); the levels returned for such rows are those of the default policy. Entries that only one
    level of a dump records, and recomputed calls with other values, have no excuse under this policy: the published
    thresholds judge them too.
    """
    levels = np.where((judged.level > Level.PASS) & (table.lone != 0), int(Level.WARNING), judged.level)
    excuses: dict[int, Excuse] = {}
    for number, pair in enumerate(table.entries):
        excuse = _excuse(table, number, policy) if pair.benign or number in table.changed else None
        if excuse is not None:
            excuses[number] = excuse
            levels[excuse.rows.start : excuse.rows.stop] = int(excuse.level)
    return RowLevels(levels, excuses, _diverging(table, judged))


def _excuse(table: LeafTable, entry: int, policy: Policy) -> Excuse | None:
    """Return the excuse of an entry that is benign or a recomputed call with other values."""
    rows = range(int(table.starts[entry]), int(table.starts[entry + 1]))
    if entry in table.changed:
        return None if policy is Policy.REFERENCE else _changed_recompute(table, entry, rows)
    if entry in table.unrecorded:
        reason = f"warning: {table.unrecorded[entry]}"
        return None if policy is Policy.REFERENCE else Excuse(rows, Level.WARNING, reason)
    if entry in table.unmatched_recomputes:
        return Excuse(rows, Level.WARNING, _UNMATCHED_RECOMPUTE)
    if table.key(entry).recompute:
        return Excuse(rows, Level.PASS, _RECOMPUTED)
    if table.loose:
        return Excuse(rows, Level.WARNING, "")
    return Excuse(rows, Level.PASS, _CUT_OFF)


def _changed_recompute(table: LeafTable, entry: int, rows: range) -> Excuse | None:
    """Return an excuse for the one row that makes the call an error."""
    changed = table.changed[entry]
    for row in rows:
        leaf = table.target[row] or table.golden[row]
        if leaf is not None and leaf.suffix == changed.suffix:
            return Excuse(range(row, row + 1), Level.ERROR, f"error: {changed.text}")
    return None


def _diverging(table: LeafTable, judged: Judged) -> Bools:
    """Return for each entry whether it is wrong: only one side has it, or one of its rows differs."""
    differing_before = np.concatenate(([0], np.cumsum(judged.kind > RowKind.UNCHECKED)))
    differing = differing_before[table.starts[1:]] > differing_before[table.starts[:-1]]
    lone = np.array([target is None or golden is None for target, golden, _ in table.entries], np.bool_)
    benign = np.array([benign for _, _, benign in table.entries], np.bool_)
    return np.asarray((differing | lone) & ~benign)
