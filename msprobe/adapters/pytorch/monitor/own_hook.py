"""A hook of one module: copies of the module, and files that it is saved into, get one that does nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


class OwnHook:
    """Calls a function.

    ``torch.save(model)`` and ``copy.deepcopy(model)`` take the hooks of modules along. A function inside of another one
    cannot be saved, and a copy would report its calls as those of the original.

    Args:
        call: gets what torch gives to the hook.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *given: Any) -> Any:
        return self._call(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes the hook of a copy: a function of the standard library that takes anything and does
        nothing, so that the file can be read without msprobe."""
        return getattr, (contextlib.nullcontext(), "__exit__")
