"""Which backward a call belongs to that a hand-written backward or a gradient hook makes.

Nothing records it: such a call looks like a forward call without a module. The module whose backward call ends next
stands in for its parent, so that matching does not mix it up with the calls of another module, nor with those that
activation checkpointing repeats at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msprobe.compare.pairs import EntryKey
from msprobe.core.naming.model import MODULE_PREFIXES

IN_BACKWARD = "~"


def with_backward_scope(keys: Sequence[EntryKey]) -> list[EntryKey]:
    """The same keys, where a forward call without parent that lies in the backward pass has the parent ``~module``.

    Without recorded modules the next backward call stands in, for calls marked as recomputed. What follows a module
    call of a later forward pass (its loss) is not in the backward pass.
    """
    result = list(keys)
    first = next((number for number, key in enumerate(keys) if key.phase == "backward"), len(keys))
    again = _forward_again(keys, first)
    module, call = "", ""
    for number in range(len(keys) - 1, first, -1):
        key = keys[number]
        if key.phase == "backward":
            module, call = (key.stem, call) if is_module(key) else (module, key.name)
        elif key.phase != "forward" or key.parent or number in again or (key.recompute and is_module(key)):
            continue
        elif is_module(key):
            module = ""
        else:
            parent = module or (call if key.recompute else "")
            result[number] = key._replace(parent=parent and IN_BACKWARD + parent)
    return result


def _forward_again(keys: Sequence[EntryKey], first: int) -> set[int]:
    """Positions of API calls between a module call after ``first`` that no checkpoint repeats, and the next backward
    call."""
    found: set[int] = set()
    inside = False
    for number in range(first, len(keys)):
        key = keys[number]
        if key.phase == "backward":
            inside = False
        elif key.phase == "forward" and not key.recompute:
            if is_module(key):
                inside = True
            elif inside:
                found.add(number)
    return found


def is_module(key: EntryKey) -> bool:
    """True for calls of modules, False for API calls."""
    return key.name.partition(".")[0] in MODULE_PREFIXES
