"""Functions that stay outermost, whatever else takes the place of what they stand for.

What decides whether a call is recorded must run before what records it, although it is put in place first. So it does
not hold the function that it calls next, but a ``Slot`` with it, and what comes later takes a place in there
(``place_of``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any


class Slot:
    """What a function that stays outermost calls.

    Attributes:
        function: the function that it stands for, or what has taken its place.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def keep_outermost(self, outer: FunctionType) -> None:
        """Let ``outer``, which calls what is in here, stay outermost wherever it stands."""
        _slots[outer] = self


_slots: weakref.WeakKeyDictionary[FunctionType, Slot] = weakref.WeakKeyDictionary()


def place_of(owner: Any, name: str) -> tuple[Any, str]:
    """Return the object and the attribute in which a function takes the place of ``owner.name``."""
    held = vars(owner).get(name)
    slot = _slots.get(held) if isinstance(held, FunctionType) else None
    return (owner, name) if slot is None else (slot, "function")
