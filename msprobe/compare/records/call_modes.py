"""Passes in evaluation beside passes in training: which forward calls belong to them.

A call runs in evaluation where no gradients are recorded, or where its module, or the module around it, is not in
training mode. A call of both modes is never the same call in both runs where the number of calls in one mode is the
same, and one run makes more in the other mode: it validates before, between or after the passes in training. Where
the numbers say nothing of the kind, the mode is a difference of the same call like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msprobe.compare.records.entries import EntryKey, is_module, parent_of
from msprobe.core.naming.names import Phase

_Call = tuple[str, str]


def is_in_evaluation(name: str, data: Mapping[str, Any], construct: Mapping[str, Any]) -> bool:
    """Return whether a forward call runs in evaluation, as far as its record, or that of the module around it, says."""
    body = data.get(name)
    if is_without_gradients(body):
        return True
    around = name if isinstance(body, dict) and "training" in body else parent_of(construct, name)
    module = data.get(around or "")
    return isinstance(module, dict) and module.get("training") is False


def is_without_gradients(body: Any) -> bool:
    """Return whether the record of a call says that it ran where no gradients are recorded."""
    return isinstance(body, dict) and body.get("autograd") in ("no_grad", "inference")


class CallModes:
    """The calls of one side by mode.

    Args:
        keys: the entries of the side.
        data: their records.
        construct: their parents.
    """

    def __init__(self, keys: Iterable[EntryKey], data: Mapping[str, Any], construct: Mapping[str, Any]) -> None:
        self._evaluation: set[str] = set()
        self._counts: Counter[tuple[str, str, bool]] = Counter()
        for key in keys:
            if key.phase == Phase.FORWARD.value and not key.recompute:
                in_evaluation = is_in_evaluation(key.name, data, construct)
                self._counts[key.stem, key.parent, in_evaluation] += 1
                if in_evaluation:
                    self._evaluation.add(key.name)

    def apart(self, other: CallModes) -> frozenset[_Call]:
        """Return the calls, by stem and module, of which one side makes more in one mode and both sides make as many in
        the other one."""
        calls = {(stem, parent) for stem, parent, _ in (*self._counts, *other._counts)}
        return frozenset(call for call in calls if self._numbers_agree(call, other) == {True, False})

    def _numbers_agree(self, call: _Call, other: CallModes) -> set[bool]:
        numbers = [[modes._counts[call[0], call[1], mode] for modes in (self, other)] for mode in (False, True)]
        if any(own[0] == own[1] == 0 for own in numbers):
            return set()
        return {own[0] == own[1] for own in numbers}

    def mode(self, key: EntryKey) -> str:
        """Return the mode of a call."""
        return "evaluation" if key.name in self._evaluation else "training"


def validates(keys: Iterable[EntryKey], own: CallModes, other: CallModes) -> frozenset[str]:
    """Return the names of the modules' calls in evaluation of one side, where both sides make the call in training as
    often and the other side less often in evaluation."""
    apart = own.apart(other)
    return frozenset(
        key.name
        for key in keys
        if is_module(key) and (key.stem, key.parent) in apart and own.mode(key) == "evaluation" and not key.recompute
    )
