"""What one side could not record: calls that its level leaves out, and calls behind the end of its run.

L0 records modules, L1 functions, mix both. Where two runs were recorded at different levels, a call that only one side
has and the level of the other leaves out is no difference. It is not judged, and the answer says so. What follows the
last entry of a run that died, ended with an exception, or still runs, is not missing either.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.records.entries import Absence
from msprobe.compare.records.note import Note
from msprobe.compare.records.run_end import ended_early, has_raised
from msprobe.compare.table.table import LeafTable
from msprobe.core.errors import NotComparableError
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.numerics.verdict import Ints, RowKind

_LACKS = {"L0": "functions", "L1": "modules", "mix": None}
_SIDES = "target", "golden run"
_MOVING = 8
"""How many entries of a backward pass before the end may be incomplete, or stand in another order."""


class Unrecorded(Exemption):
    """Excuses the calls of one side that the level of the other side leaves out, and what lies behind the end of a run
    that died or still runs, with values of its last gradients.

    The gradients of a module's parameters arrive one by one, and its entry moves to the end with each of them. So the
    last entries of a backward pass may stand in another order, and without the values that would have come next.
    """

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with such entries benign, and the reason of each that a level leaves out in ``unrecorded``.

        Raises:
            NotComparableError: one side has only modules, the other one only functions, and nothing pairs them.
        """
        ended = ended_early(dumps.target, dumps.golden), ended_early(dumps.golden, dumps.target)
        kinds = RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN
        self._lost_at_end = [int(kind) for kind, has_ended in zip(kinds, ended, strict=True) if has_ended]
        if self._lost_at_end:
            table = _excuse_end(table, dumps, ended)
        dump_levels = [dump.level or "" for dump in (dumps.target, dumps.golden)]
        if dump_levels[0] == dump_levels[1] or not _LACKS.keys() >= set(dump_levels):
            return table
        return _excuse_left_out(table, dump_levels)

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of values that the run would have recorded next."""
        if table.ended_from is not None:
            rows = kinds[int(table.starts[table.ended_from]) :]
            rows[np.isin(rows, self._lost_at_end)] = RowKind.UNCHECKED

    def notes(self, table: LeafTable) -> list[str]:
        """Return a sentence for each side that has calls which the other side could not record."""
        values: Counter[tuple[str, str]] = Counter()
        for number, reason in table.unrecorded.items():
            name = _SIDES[table.entries[number].target is None]
            values[reason, name] += len(table.rows_of(number))
        return [
            Note(count, "", f"{why}: {{}} values of the {name} were not compared")
            for (why, name), count in values.items()
        ]


def _excuse_end(table: LeafTable, dumps: ComparedDumps, ended: tuple[bool, bool]) -> LeafTable:
    """Return the table with the entries benign that only the other side has at the end of a run, by side.

    An entry that is benign already keeps its reason. Where the sides are different programs, such an entry may be other
    code as well, and is not said to be missing.
    """
    entries, reason = list(table.entries), Absence.OTHER_PROGRAM if table.loose else Absence.RUN_ENDED
    first, moving = len(entries), 0
    for number in range(len(entries) - 1, -1, -1):
        pair = entries[number]
        if (ended[0] and pair.target is None) or (ended[1] and pair.golden is None):
            entries[number] = pair._replace(absence=pair.absence or reason)
        elif has_raised(dumps.target, pair.target) or has_raised(dumps.golden, pair.golden):
            pass  # the call in which the run ended, and the modules around it
        else:
            moving += 1
            if moving > _MOVING or table.keys[number].phase == Phase.FORWARD.value:
                break
        first = number
    return replace(table, entries=entries, ended_from=first)


def _excuse_left_out(table: LeafTable, dump_levels: list[str]) -> LeafTable:
    lacks = [_LACKS[level] for level in dump_levels]
    recorded = (
        {_kind_of_call(pair.target) for pair in table.entries if pair.target is not None},
        {_kind_of_call(pair.golden) for pair in table.entries if pair.golden is not None},
    )
    if None not in lacks and recorded[0].isdisjoint(recorded[1]) and not _has_pair(table, range(table.row_count)):
        raise NotComparableError(
            f"the target was recorded at level {dump_levels[0]}, which has no {lacks[0]}, the golden run at "
            f"{dump_levels[1]}, which has no {lacks[1]}: no call is on both sides; record both at one level "
            "(mix has all)"
        )
    entries, unrecorded = list(table.entries), dict[int, str]()
    for number, pair in enumerate(table.entries):
        if pair.target is not None and pair.golden is not None:
            continue
        side, kind = int(pair.target is not None), _kind_of_call(pair.target or pair.golden or "")
        if kind == lacks[side] and kind not in recorded[side] and not _has_pair(table, table.rows_of(number)):
            unrecorded[number] = f"the {_SIDES[side]} was recorded at level {dump_levels[side]}, which has no {kind}"
            entries[number] = pair._replace(absence=Absence.NOT_RECORDED_AT_LEVEL)
    return replace(table, entries=entries, unrecorded=unrecorded)


def _kind_of_call(name: str) -> str:
    return "modules" if is_module_name(name) else "functions"


def _has_pair(table: LeafTable, rows: range) -> bool:
    """Return whether one of the rows has both sides: a mapping may pair values of a module with those of a function."""
    return any(table.target[row] is not None and table.golden[row] is not None for row in rows)
