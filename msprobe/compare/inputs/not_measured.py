"""Modules of compiled graphs that one side could not measure: what it lacks for that reason is left out of the other.

Without this a call that the graph did make would look like a call that only the other side makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from msprobe.compare.records.entries import parents_of
from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import NOT_MEASURED

_MOST_NAMED = 3


def without_unmeasured(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps without the calls that the other one says it could not measure, and a note for each side."""
    target_left, target_notes = _without(target, golden, "golden run")
    golden_left, golden_notes = _without(golden, target, "target")
    return target_left, golden_left, target_notes + golden_notes


def _without(dump: Dump, other: Dump, side: str) -> tuple[Dump, list[str]]:
    listed = other.header.get(NOT_MEASURED)
    names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    if not names:
        return dump, []
    left_out = {
        name for name in dump.data if name not in other.data and any(one in names for one in _names(dump, name))
    }
    if not left_out:
        return dump, []
    shown = ", ".join(sorted(names)[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    count = "1 record is" if len(left_out) == 1 else f"{len(left_out)} records are"
    note = f"the {side} could not measure {shown} in a compiled graph: {count} not compared"
    return replace(dump, data={name: body for name, body in dump.data.items() if name not in left_out}), [note]


def _names(dump: Dump, name: str) -> Iterator[str]:
    """Yield the names under which a call, or a call around it, is said to be unmeasured: module, and its phase."""
    for call in chain([name], parents_of(dump.construct, name)):
        try:
            stem, phase, _ = split_entry(call)
        except NameSyntaxError:
            continue
        yield stem
        yield f"{stem}.{phase}"
