"""Who recorded a dump, and what a tool that is not msprobe records differently.

Dumps of msprobe say so in the field ``written_by`` of their header; those of mindstudio-probe have no such field, and
hold the same calls under the same names. Some values mean something else there, and some are not there (see
``records.otherwise``). The documentation lists them under compatibility.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msprobe.compare.records.entries import EntryKey
from msprobe.core.store.reader import Dump

_NAME = "msprobe"
_NONE: frozenset[str] = frozenset()


def written_by_msprobe(dump: Dump) -> bool:
    """Return whether the header of a dump says that msprobe recorded it."""
    return _writer(dump).get("name") == _NAME


def side_of_another_tool(target: Dump, golden: Dump) -> int | None:
    """Return which side another tool than msprobe recorded, 0 for the target and 1 for the golden run; None where
    both are of one kind."""
    ours = written_by_msprobe(target), written_by_msprobe(golden)
    return None if ours[0] == ours[1] else int(ours[0])


def other_kernels(target: Dump, golden: Dump) -> frozenset[str]:
    """Return framework and device of both sides, such as ``mindspore CPU``, as far as the headers say them; nothing
    where both are the same."""
    names = [(dump.framework, _writer(dump).get("device")) for dump in (target, golden)]
    return (
        frozenset(f"{framework} {device}" for framework, device in names if device) if names[0] != names[1] else _NONE
    )


def _writer(dump: Dump) -> dict[str, Any]:
    writer = dump.header.get("written_by")
    return writer if isinstance(writer, dict) else {}


def marked_as(keys: Sequence[EntryKey], own: Sequence[EntryKey]) -> list[EntryKey]:
    """Return the keys of another tool's dump with the marks of recomputed calls that the dump of msprobe has.

    Both tools count calls alike, so a call of one name is the same call where both runs recompute. This one does if it
    has more calls of some name than msprobe has without the recomputed ones.
    """
    marks = {key.name: key for key in own if key.recompute}
    if not marks:
        return list(keys)
    first, all_calls = _calls_by_stem(own, recomputed=False), _calls_by_stem(keys, recomputed=True)
    if not any(count > first.get(stem, 0) for stem, count in all_calls.items()):
        return list(keys)
    return [
        key._replace(recompute=True, parent=marks[key.name].parent)
        if key.name in marks
        else key._replace(recompute=False)
        if key.recompute
        else key
        for key in keys
    ]


def _calls_by_stem(keys: Sequence[EntryKey], *, recomputed: bool) -> dict[str, int]:
    """Return the number of forward calls of each name, with or without the recomputed ones."""
    counts: dict[str, int] = {}
    for key in keys:
        if key.phase == "forward" and (recomputed or not key.recompute):
            counts[key.stem] = counts.get(key.stem, 0) + 1
    return counts
