"""The closure of an optimizer step, which computes the loss and the gradients: ``optimizer.step(closure)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Closure = Callable[..., Any]
_KEYWORD = "closure"


def closure_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Closure | None:
    """Return the closure that a step gets, None where it gets none; ``args`` begin with the optimizer."""
    given = kwargs.get(_KEYWORD, args[1] if len(args) > 1 else None)
    return given if callable(given) else None


def with_closure(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], wrap: Callable[[Closure], Closure]
) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
    """Return the arguments of a step with its closure wrapped, None where it gets none."""
    closure = closure_of(args, kwargs)
    if closure is None:
        return None
    if _KEYWORD in kwargs:
        return args, {**kwargs, _KEYWORD: wrap(closure)}
    return (args[0], wrap(closure), *args[2:]), kwargs
