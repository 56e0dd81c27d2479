"""Calls that the other side could not record, because of its level: L0 records modules, L1 functions, mix both.

Where two runs were recorded at different levels, such a call alone is no difference. It is not judged, and the answer
says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msprobe.core.errors import NotComparableError
from msprobe.core.naming.model import MODULE_PREFIXES

if TYPE_CHECKING:
    from msprobe.compare.table import LeafTable
    from msprobe.core.store.reader import Dump

_LACKS = {"L0": "functions", "L1": "modules", "mix": None}
_SIDES = "target", "golden run"


def excuse_unrecorded(table: LeafTable, dumps: tuple[Dump, Dump]) -> None:
    """Set ``table.unrecorded`` and call its entries benign; ``dumps`` are target and golden run.

    Raises:
        NotComparableError: one side has modules alone, the other one functions alone, and nothing pairs them.
    """
    levels = [dump.level or "" for dump in dumps]
    if levels[0] == levels[1] or not _LACKS.keys() >= set(levels):
        return
    lacks = [_LACKS[level] for level in levels]
    there = (
        {_kind(pair.target) for pair in table.entries if pair.target is not None},
        {_kind(pair.golden) for pair in table.entries if pair.golden is not None},
    )
    if None not in lacks and there[0].isdisjoint(there[1]) and not _any_pair(table, 0, table.rows):
        raise NotComparableError(
            f"the target was recorded at level {levels[0]}, which has no {lacks[0]}, the golden run at {levels[1]}, "
            f"which has no {lacks[1]}: no call is on both sides; record both at one level (mix has all)"
        )
    for number, pair in enumerate(table.entries):
        if pair.target is not None and pair.golden is not None:
            continue
        side, kind = int(pair.target is not None), _kind(pair.target or pair.golden or "")
        start, stop = table.starts[number : number + 2].tolist()
        if kind == lacks[side] and kind not in there[side] and not _any_pair(table, start, stop):
            table.unrecorded[number] = f"the {_SIDES[side]} was recorded at level {levels[side]}, which has no {kind}"
            table.entries[number] = pair._replace(benign=True)


def level_notes(table: LeafTable) -> list[str]:
    """A sentence for each side that has calls of ``table.unrecorded``."""
    values: Counter[tuple[str, str]] = Counter()
    for number, reason in table.unrecorded.items():
        name = _SIDES[table.entries[number].target is None]
        values[reason, name] += int(table.starts[number + 1] - table.starts[number])
    return [f"{reason}: {count} values of the {name} were not compared" for (reason, name), count in values.items()]


def _kind(name: str) -> str:
    return "modules" if name.partition(".")[0] in MODULE_PREFIXES else "functions"


def _any_pair(table: LeafTable, start: int, stop: int) -> bool:
    """Whether a row has both sides: a mapping may pair values of a module with those of a function."""
    rows = zip(table.target[start:stop], table.golden[start:stop], strict=True)
    return any(ours is not None and theirs is not None for ours, theirs in rows)
