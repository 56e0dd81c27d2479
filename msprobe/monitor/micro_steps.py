"""Which micro step of a training step a call belongs to, told from the call tree of construct.json.

A forward call of a module (or of an optimizer) that nobody called opens a micro step, and whatever it called, itself
or through others, belongs to it. A backward call belongs where its forward call does. A forward call that a backward
call repeats (activation checkpointing) belongs where that backward call does. Gradients of parameters belong to the
forward call of the same number, or where there is none to the first micro step with their module.

Calls of one function or module are numbered from 0 in each micro step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from msprobe.core.naming.model import MODULE_PREFIXES, ApiName, DebugName, EntryName, ModuleName, Phase
from msprobe.core.naming.parse import NameSyntaxError, parse_entry

_ROOTS = (*MODULE_PREFIXES, "optimizer")
Placed = tuple[int, int]
"""Micro step, and number of the call in it."""


class OneStep:
    """A dump without a call tree, or one that is not to be divided: everything is one step, calls keep their number."""

    count = 1
    unlike_roots = False

    def place(self, entry: ApiName | ModuleName) -> Placed | None:
        return 0, entry.call or 0


class MicroSteps:
    """The micro steps of one dump: ``count`` of them. ``unlike_roots`` when different modules opened them, which means
    that the dump lacks the one above them."""

    def __init__(self, construct: Mapping[str, Any]) -> None:
        """``construct`` maps names of calls to that of their caller, or to None; other values count as None."""
        self._parents = construct
        forwards = {key: entry for key in construct if (entry := _parsed(key)) and entry.phase is Phase.FORWARD}
        roots = [(key, entry) for key, entry in forwards.items() if construct[key] is None and entry.prefix in _ROOTS]
        self._roots = {key: number for number, (key, _) in enumerate(roots)}
        self.count = len(roots)
        self.unlike_roots = len({entry.stem for _, entry in roots if entry.prefix in MODULE_PREFIXES}) > 1
        self._first: dict[str, int] = {}
        calls: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        for key, entry in forwards.items():
            step = self._step(key)
            if step is not None:
                self._first[entry.stem] = min(step, self._first.get(entry.stem, step))
                calls[entry.stem, step].append((entry.call or 0, key))
        self._placed = {
            key: (step, number) for (_, step), found in calls.items() for number, (_, key) in enumerate(sorted(found))
        }

    def place(self, entry: ApiName | ModuleName) -> Placed | None:
        """Where a call belongs; None when no micro step holds it."""
        placed = self._placed.get(_forward_of(entry))
        if placed is None and entry.phase is Phase.PARAMETERS_GRAD:
            return self._first.get(entry.stem, 0), entry.call or 0
        return placed

    def _step(self, key: str) -> int | None:
        """Follow the callers up, from a repeated call through the backward call to the forward call of that."""
        seen: set[str] = set()
        at: str | None = key
        while at is not None and at not in seen and at not in self._roots:
            seen.add(at)
            at = self._above(at)
        return None if at is None else self._roots.get(at)

    def _above(self, key: str) -> str | None:
        parent = self._parents.get(key)
        if isinstance(parent, str):
            return parent
        entry = _parsed(key)
        return _forward_of(entry) if entry is not None and entry.phase is Phase.BACKWARD else None


def _parsed(key: str) -> ApiName | ModuleName | None:
    try:
        entry: EntryName = parse_entry(key)
    except NameSyntaxError:
        return None
    return None if isinstance(entry, DebugName) else entry


def _forward_of(entry: ApiName | ModuleName) -> str:
    """The name of the forward call with the same number."""
    if isinstance(entry, ModuleName):
        return str(ModuleName(entry.prefix, entry.path, entry.cls, Phase.FORWARD, entry.call or 0))
    return str(ApiName(entry.prefix, entry.api, entry.call, Phase.FORWARD))
