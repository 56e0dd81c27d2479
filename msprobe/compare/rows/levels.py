"""The level of each row, decided in one place for counts, tables, graphs and the first divergence.

The judge gives a level to every pair of values (``numerics.verdict``). Two things are decided afterwards, because they
depend on the whole table: a value that only one side has is never worse than a warning, and an entry that an exemption
excuses, or makes an error, gets a level that overrides the one of the judge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from msprobe.compare.inputs.mode import Policy
from msprobe.compare.records.entries import Absence
from msprobe.compare.table.table import LeafTable
from msprobe.numerics.verdict import Bools, Ints, Judged, Level, RowKind

LEVEL_NAMES = tuple(level.name.lower() for level in Level)

_LEVELS_BY_ABSENCE = {
    Absence.RECORDED_OTHERWISE: (
        Level.WARNING,
        "warning: the tool that recorded the other side records no such call",
    ),
    Absence.RECOMPUTED: (
        Level.PASS,
        "recomputed forward call, on one side only, with the values of the call it repeats",
    ),
    Absence.RECOMPUTED_UNMATCHED: (
        Level.WARNING,
        "warning: recomputed forward call, on one side only, and no call with values that it repeats",
    ),
    Absence.RUN_ENDED: (Level.PASS, "the other run ended before this call"),
    Absence.OTHER_PROGRAM: (Level.WARNING, ""),
    Absence.FUSED: (Level.WARNING, ""),
    Absence.OTHER_CODE: (
        Level.WARNING,
        "warning: only this side makes the call; the values that both sides record decide",
    ),
    Absence.NOT_SHOWN: (
        Level.WARNING,
        "warning: only this side makes the call, and nothing recorded later shows its values",
    ),
    Absence.ACCEPTED: (Level.WARNING, "warning: an accepted difference: only this side has it"),
}
"""Level and message of the rows of an entry alone. The message of ``NOT_RECORDED_AT_LEVEL`` is in the table."""


class LevelOverride(NamedTuple):
    """The level of some consecutive rows of one entry, which replaces the level of the judge.

    ``message`` is what the result table says about each of these rows. It is empty where the message of the judge
    stays.
    """

    rows: range
    level: Level
    message: str


class RowLevels(NamedTuple):
    """The levels of all rows of a table.

    ``levels`` has a number of ``Level`` per row. ``overrides`` has the override of each entry that has one, by the
    number of the entry. ``diverging`` says of each entry whether it is a divergence by itself.
    """

    levels: Ints
    overrides: dict[int, LevelOverride]
    diverging: Bools

    def names(self) -> list[str]:
        """Return ``pass``, ``warning`` or ``error`` for every row."""
        return [LEVEL_NAMES[level] for level in self.levels.tolist()]


def row_levels(table: LeafTable, judged: Judged, policy: Policy = Policy.DEFAULT) -> RowLevels:
    """Return the level of every row of ``table``.

    Under the policy ``reference`` the published thresholds decide about the rows of every entry without override
    (see ``reference_policy``); the levels returned for such rows are those of the default policy. Entries that only one
    level of a dump records, and recomputed calls with other values, have no override under this policy: the published
    thresholds judge them too.
    """
    levels = np.where((judged.level > Level.PASS) & (table.lone != 0), int(Level.WARNING), judged.level)
    overrides: dict[int, LevelOverride] = {}
    for number, pair in enumerate(table.entries):
        override = None
        if number in table.changed:
            override = _override_of_changed(table, number, policy)
        elif pair.absence is not None:
            override = _override_of_absent(table, number, pair.absence, policy)
        if override is not None:
            overrides[number] = override
            levels[override.rows.start : override.rows.stop] = int(override.level)
    return RowLevels(levels, overrides, _diverging(table, judged))


def _override_of_absent(table: LeafTable, entry: int, absence: Absence, policy: Policy) -> LevelOverride | None:
    """Return the level of an entry that only one side has, for a reason that makes it no difference."""
    rows = table.rows_of(entry)
    if absence is not Absence.NOT_RECORDED_AT_LEVEL:
        return LevelOverride(rows, *_LEVELS_BY_ABSENCE[absence])
    if policy is Policy.REFERENCE:
        return None
    return LevelOverride(rows, Level.WARNING, f"warning: {table.unrecorded[entry]}")


def _override_of_changed(table: LeafTable, entry: int, policy: Policy) -> LevelOverride | None:
    """Return the level of the one row that makes a recomputed call with other values an error."""
    if policy is Policy.REFERENCE:
        return None
    changed = table.changed[entry]
    for row in table.rows_of(entry):
        leaf = table.target[row] or table.golden[row]
        if leaf is not None and leaf.suffix == changed.suffix:
            return LevelOverride(range(row, row + 1), Level.ERROR, f"error: {changed.text}")
    return None


def _diverging(table: LeafTable, judged: Judged) -> Bools:
    """Return for each entry whether it is a divergence by itself.

    It is one where one of its rows differs, or where only one side has it, and nothing says that its absence is benign.
    """
    differing_before = np.concatenate(([0], np.cumsum(judged.kind > RowKind.UNCHECKED)))
    differing = differing_before[table.starts[1:]] > differing_before[table.starts[:-1]]
    one_sided = np.zeros(len(table.entries), np.bool_)
    one_sided[list(table.alone)] = True
    benign = np.array([absence is not None for _, _, absence in table.entries], np.bool_)
    benign[list(table.harmless)] = True
    return np.asarray((differing | one_sided) & ~benign)
