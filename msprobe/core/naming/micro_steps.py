"""Micro steps: which forward and backward pass of a training step a call belongs to, from the tree of construct.json.

The outermost calls of a step divide it (``number_outermost``). Everything that such a call made, itself or through
other calls, belongs to its micro step. A backward call belongs to the micro step of its forward call. A forward call
that a backward call repeats (activation checkpointing) belongs to the micro step of that backward call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from msprobe.core.naming.names import MODULE_PREFIXES, ApiName, DebugName, EntryName, ModuleName, Phase
from msprobe.core.naming.parser import NameSyntaxError, parse_entry

_ROOT_PREFIXES = (*MODULE_PREFIXES, "optimizer")
StepAndCall = tuple[int, int]
"""The micro step of a call, and the number of the call among the calls of its function or module in that step."""


class Opening(Enum):
    """Which outermost forward call begins a micro step. Both are published rules, for two kinds of files."""

    EVERY_FORWARD = "every outermost forward call of a module or optimizer"
    """The rule of trend databases."""
    FORWARD_AFTER_BACKWARD = "an outermost forward call of a module that follows a backward call of one"
    """The rule of graph databases: the forward calls of several outermost modules are one forward pass."""


class OutermostCall(Enum):
    """What an outermost call is to the division into micro steps."""

    FORWARD = "forward call of a module"
    BACKWARD = "any other call of a module"
    NEUTRAL = "a call that neither begins nor ends a pass"


def number_outermost(calls: Iterable[OutermostCall], opening: Opening) -> list[int]:
    """Return the micro step of each outermost call, counted from 0.

    Args:
        calls: the outermost calls of a step in the order in which they began.
        opening: which of them begin a micro step. Calls before the first one belong to micro step 0.

    Example:
        >>> F, B = OutermostCall.FORWARD, OutermostCall.BACKWARD
        >>> number_outermost([F, F, B, F, B], Opening.EVERY_FORWARD)
        [0, 1, 1, 2, 2]
        >>> number_outermost([F, F, B, F, B], Opening.FORWARD_AFTER_BACKWARD)
        [0, 0, 0, 1, 1]
    """
    every = opening is Opening.EVERY_FORWARD
    numbers: list[int] = []
    current, opens = 0, False
    for call in calls:
        if call is OutermostCall.FORWARD:
            current += opens
            opens = every
        elif call is OutermostCall.BACKWARD and not every:
            opens = True
        numbers.append(current)
    return numbers


class OneStep:
    """The only micro step of a dump that is not divided or has no call tree; calls keep their number."""

    count = 1
    unlike_roots = False

    def find(self, entry: ApiName | ModuleName) -> StepAndCall | None:
        """Return step 0 and the number of the call."""
        return 0, entry.call or 0


class MicroSteps:
    """The micro steps of one dump by ``Opening.EVERY_FORWARD``.

    Attributes:
        count: how many there are.
        unlike_roots: whether different modules begin them, which means that the dump lacks the module above them.
    """

    def __init__(self, construct: Mapping[str, Any]) -> None:
        """Divide the calls of ``construct``, which maps the name of a call to that of its caller, or to None.

        A value that is not a name counts as None.
        """
        self._parents = construct
        forwards = {key: entry for key in construct if (entry := _parse_call(key)) and entry.phase is Phase.FORWARD}
        roots = [
            (key, entry) for key, entry in forwards.items() if construct[key] is None and entry.prefix in _ROOT_PREFIXES
        ]
        numbers = number_outermost([OutermostCall.FORWARD] * len(roots), Opening.EVERY_FORWARD)
        self._roots = {key: number for (key, _), number in zip(roots, numbers, strict=True)}
        self.count = len(roots)
        self.unlike_roots = len({entry.stem for _, entry in roots if entry.prefix in MODULE_PREFIXES}) > 1
        self._first_step: dict[str, int] = {}
        calls: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        for key, entry in forwards.items():
            step = self._step_of(key)
            if step is not None:
                self._first_step[entry.stem] = min(step, self._first_step.get(entry.stem, step))
                calls[entry.stem, step].append((entry.call or 0, key))
        self._positions = {
            key: (step, number) for (_, step), group in calls.items() for number, (_, key) in enumerate(sorted(group))
        }

    def find(self, entry: ApiName | ModuleName) -> StepAndCall | None:
        """Return micro step and number of a call; None when it belongs to no micro step.

        Gradients of parameters belong to the forward call of the same number, or where there is none to the first micro
        step with their module.
        """
        position = self._positions.get(_forward_name(entry))
        if position is None and entry.phase is Phase.PARAMETERS_GRAD:
            return self._first_step.get(entry.stem, 0), entry.call or 0
        return position

    def _step_of(self, key: str) -> int | None:
        """Follow the callers of a call up to an outermost one, and return its micro step.

        A repeated call leads to the backward call that repeats it, a backward call to its forward call.
        """
        visited: set[str] = set()
        current: str | None = key
        while current is not None and current not in visited and current not in self._roots:
            visited.add(current)
            current = self._caller(current)
        return None if current is None else self._roots.get(current)

    def _caller(self, key: str) -> str | None:
        parent = self._parents.get(key)
        if isinstance(parent, str):
            return parent
        entry = _parse_call(key)
        return _forward_name(entry) if entry is not None and entry.phase is Phase.BACKWARD else None


def _parse_call(key: str) -> ApiName | ModuleName | None:
    try:
        entry: EntryName = parse_entry(key)
    except NameSyntaxError:
        return None
    return None if isinstance(entry, DebugName) else entry


def _forward_name(entry: ApiName | ModuleName) -> str:
    """Return the name of the forward call with the same number."""
    if isinstance(entry, ModuleName):
        return str(ModuleName(entry.prefix, entry.path, entry.cls, Phase.FORWARD, entry.call or 0))
    return str(ApiName(entry.prefix, entry.api, entry.call, Phase.FORWARD))
