"""Find cycles in construct.json: a call that lies inside itself. Such a file is damaged, and none of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msprobe.compare.records.entries import parent_of
from msprobe.core.store.layout import CONSTRUCT
from msprobe.core.store.reader import Dump


def parent_cycle(construct: Mapping[str, Any]) -> list[str]:
    """Return the names of one cycle of parents, or an empty list.

    Each name is followed by its parent; the first name stands again at the end.
    """
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
    """Return every name that is the parent of another one: only these, which are few, can lie in a cycle."""
    try:
        parents = dict.fromkeys(construct.values())
    except TypeError:  # lists: with micro steps
        parents = dict.fromkeys(parent_of(construct, name) for name in construct)
    return [parent for parent in parents if isinstance(parent, str)]


def without_cycles(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps and a note about each cycle; where one has a cycle, both lose their parents.

    If only one side had no parents, calls that both sides repeat would not pair.
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
