"""A construct.json in which a call lies inside itself: it is damaged, and none of what it says can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msprobe.compare.records.entries import parent_of
from msprobe.core.store.layout import CONSTRUCT
from msprobe.core.store.reader import Dump


def parent_cycle(construct: Mapping[str, Any]) -> list[str]:
    """The names of one cycle of parents, each followed by its parent and the first repeated at the end; empty without
    one."""
    ended: set[str] = set()
    for start in _parents(construct):
        chain: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in ended:
            if name in chain:
                names = list(chain)
                return [*names[names.index(name) :], name]
            chain[name] = None
            name = parent_of(construct, name)
        ended.update(chain)
    return []


def _parents(construct: Mapping[str, Any]) -> list[str]:
    """What stands for a parent anywhere, once each: only those can lie in a cycle, and they are few."""
    try:
        found = dict.fromkeys(construct.values())
    except TypeError:  # lists: with micro steps
        found = dict.fromkeys(parent_of(construct, name) for name in construct)
    return [parent for parent in found if isinstance(parent, str)]


def without_cycles(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Both dumps, without what construct.json says where that of one has a cycle, and a note about each cycle.

    Without parents on one side only, calls that both sides repeat would not meet.
    """
    notes = [_note(dump, cycle) for dump in (target, golden) if (cycle := parent_cycle(dump.construct))]
    if not notes:
        return target, golden, []
    return replace(target, construct={}), replace(golden, construct={}), notes


def _note(dump: Dump, cycle: list[str]) -> str:
    path = dump.place.document.with_name(CONSTRUCT)
    return (
        f"{path} is damaged, a call lies inside itself ({' in '.join(cycle)}): calls were paired by their names alone"
    )
