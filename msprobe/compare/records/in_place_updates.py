"""What becomes of a tensor that calls outside of all modules change in place: parameters in a step of an optimizer.

Nothing records which tensor it is. But what one call in place returns is what the next one gets, so the calls on one
tensor form a chain, and its last result is the value that stays. A tensor of which all elements are equal (the zeros
that a bias and every state begin with) has too many namesakes, and no chain begins with it. Nor is it recorded that a
tensor is bound to a new value (``p.data = new``, ``copy_``): then another result of the same shape, which a later call
outside of all modules returns, is the value that stays. An update is made of gradients, so it follows a backward call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msprobe.compare.records.entries import OPTIMIZER, EntryKey, stem_of
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, Leaf, is_tensor, leaves
from msprobe.trace.likeness import EXACT, distance, same_values
from msprobe.trace.trace import Trace
from msprobe.trace.values import Signature, fingerprint

_CHANGED, _RETURNED = ".input.0", ".output.0"
"""The first argument, and the result, of a call in place; both may be lists of tensors (``_foreach_add_``)."""


class Update(NamedTuple):
    """The last result of the calls that change one tensor: the name of the entry, its leaf there, and the position of
    the entry among all."""

    entry: str
    leaf: Leaf
    position: int


class InPlaceUpdates:
    """The chains of calls in place of one dump.

    Args:
        keys: its entries.
        data: its records.
    """

    def __init__(self, keys: Iterable[EntryKey], data: Mapping[str, Any]) -> None:
        self._first: dict[Signature, list[Update]] = {}
        self._waiting: dict[Signature, list[list[Update]]] = {}
        self._results: dict[str, list[Update]] = {}
        follows = False
        for position, key in enumerate(keys):
            if key.phase != Phase.FORWARD.value or key.parent not in ("", OPTIMIZER):
                follows = follows or key.phase != Phase.FORWARD.value
                continue
            own = leaves(key.name, data[key.name])
            if works_in_place(key.stem):
                self._add(key.name, own, position)
            for leaf in own if (follows or key.parent) and not works_in_place(key.stem) else ():
                if leaf.slot == OUTPUT and is_tensor(leaf.raw):
                    update = Update(key.name, leaf, position)
                    self._results.setdefault(str(leaf.raw["shape"]), []).append(update)

    def _add(self, entry: str, own: list[Leaf], position: int) -> None:
        by_suffix = {leaf.suffix: leaf for leaf in own}
        for leaf in own:
            if leaf.suffix != _CHANGED and not leaf.suffix.startswith(f"{_CHANGED}."):
                continue
            result = by_suffix.get(_RETURNED + leaf.suffix.removeprefix(_CHANGED))
            before = fingerprint(leaf.raw)
            if before is None or result is None or not is_tensor(result.raw):
                continue
            waiting = self._waiting.get(before)
            chain = waiting.pop(0) if waiting else self._first.setdefault(before, [])
            chain[:] = [Update(entry, result, position)]
            after = fingerprint(result.raw)
            if after is not None:
                self._waiting.setdefault(after, []).append(chain)

    def last(self, raw: Any) -> Update | None:
        """Return the last result of the calls that change a tensor, by its value before the first of them; None where
        no call is known to change it."""
        own = fingerprint(raw)
        chain = self._first.get(own) if own is not None else None
        return chain[0] if chain else None

    def nearest(self, other: Update, last: Update | None) -> Update | None:
        """Return which is nearest to an update of the other side: the last known change, where that is near, or a later
        result outside of all modules. The result of a call in place belongs to the tensor that it changes."""
        start = -1 if last is None else last.position
        results = (own for own in self._results.get(str(other.leaf.raw["shape"]), ()) if own.position > start)
        candidates = [*((last,) if last is not None else ()), *results]
        if last is not None and same_values(last.leaf.raw, other.leaf.raw, EXACT):
            return last
        return min(candidates, key=lambda own: distance(own.leaf.raw, other.leaf.raw), default=None)


def works_in_place(stem: str) -> bool:
    """Return whether a function changes its first argument, as its name says: ``add_``, ``__iadd__``."""
    operator = stem.rpartition(".")[2]
    return operator.startswith("__i") if operator.endswith("__") else operator.endswith("_")


def changes_temporary(trace: Trace, name: str) -> bool:
    """Return whether the tensor that a call changes in place was made by a call before it, of others: then its result
    is no more a state than that of any other call."""
    call = trace.by_name.get(name)
    while call is not None:
        given = next((value for value in call.given if value.leaf.slot == INPUT), None)
        if given is None or given.is_source:
            return False
        call = given.root.call
        if not works_in_place(stem_of(call.name)):
            return True
    return False
