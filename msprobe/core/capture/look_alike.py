"""Give a wrapper the signature and the name of the function it wraps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any


def copy_signature(wrapper: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Give ``wrapper`` the name, signature and attributes of ``original``, as far as it has them."""
    try:
        functools.update_wrapper(wrapper, original)
    except (AttributeError, TypeError):  # a callable without the usual attributes
        wrapper.__wrapped__ = original  # type: ignore[attr-defined]


def name_after_owner(wrapper: Any, owner: Any, attribute: str) -> None:
    """Name ``wrapper`` after the attribute it is set to: what is pickled by name must be found there.

    Built-in functions carry the names of their C module, methods those of their class, and functions those of the
    module in which they are written, where the original stands.
    """
    if isinstance(owner, type):
        wrapper.__module__, wrapper.__qualname__ = owner.__module__, f"{owner.__qualname__}.{attribute}"
    elif isinstance(owner, ModuleType):
        wrapper.__module__, wrapper.__qualname__ = owner.__name__, attribute
