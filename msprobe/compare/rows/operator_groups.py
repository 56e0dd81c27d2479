"""Rows that differ, by operator: forty of them may be one kernel.

An operator is what a call runs: a function or operator of the framework (``Functional.gelu``, ``Aten.mm``) or a class
of modules (``Module.LayerNorm``), forward and backward apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from msprobe.compare.rows.summary import OperatorGroup
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming import NameSyntaxError, parse_entry
from msprobe.core.naming.names import DebugName, ModuleName
from msprobe.numerics.verdict import Judged, RowKind
from msprobe.trace.leaves import slot_of


def operator_groups(
    table: LeafTable, judged: Judged, levels: Sequence[str], place: tuple[int | None, int | None] = (None, None)
) -> list[OperatorGroup]:
    """Return the rows of a comparison that differ, by operator, in the order of execution.

    Args:
        table: the rows.
        judged: their verdicts.
        levels: ``pass``, ``warning`` or ``error`` for each row.
        place: step and rank of the rows.
    """
    groups: dict[tuple[str, str], OperatorGroup] = {}
    last = -1
    for row, (level, entry) in enumerate(zip(levels, table.entry_of_row().tolist(), strict=True)):
        if level == "pass":
            continue
        pair = table.entries[entry]
        operator, phase = operator_of(pair.name)
        leaf = table.target[row] or table.golden[row]
        name = f"{pair.sided} {slot_of(leaf)}" if leaf is not None else pair.sided
        group = groups.get((operator, phase))
        if group is None:
            group = groups[operator, phase] = OperatorGroup(operator, phase, first=name, step=place[0], rank=place[1])
        group.rows += 1
        group.calls += entry != last
        group.errors += level == "error"
        group.alone += table.target[row] is None or table.golden[row] is None
        times = float(judged.times[row]) if judged.kind[row] == RowKind.VALUE else math.inf
        if math.isfinite(times) and (group.worst is None or times > group.worst):
            group.worst, group.worst_row = times, name
        last = entry
    return list(groups.values())


def merged_groups(pairs: Iterable[Sequence[OperatorGroup]]) -> list[OperatorGroup]:
    """Return the groups of all pairs of dumps: those with most rows that differ by themselves first.

    Args:
        pairs: the groups of each pair, in the order of steps and ranks.
    """
    merged: dict[tuple[str, str], OperatorGroup] = {}
    for groups in pairs:
        for group in groups:
            known = merged.setdefault((group.operator, group.phase), replace(group, calls=0, rows=0, errors=0, alone=0))
            known.calls += group.calls
            known.rows += group.rows
            known.errors += group.errors
            known.alone += group.alone
            if group.worst is not None and (known.worst is None or group.worst > known.worst):
                known.worst, known.worst_row = group.worst, group.worst_row
    return sorted(merged.values(), key=lambda one: (-one.errors, -one.rows))


def operator_of(name: str) -> tuple[str, str]:
    """Return the operator that the entry of a dump runs, and ``forward`` or ``backward``; "" where it has no phase."""
    try:
        entry = parse_entry(name)
    except NameSyntaxError:
        return name, ""
    if isinstance(entry, ModuleName):
        return f"{entry.prefix}.{entry.cls}", entry.phase.value
    return entry.stem, "" if isinstance(entry, DebugName) else entry.phase.value
