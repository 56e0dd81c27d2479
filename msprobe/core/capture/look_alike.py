"""A wrapper that signs and introspects like what it wraps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def look_like(wrapper: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Give ``wrapper`` the name, signature and attributes of ``original``, as far as it has them."""
    try:
        functools.update_wrapper(wrapper, original)
    except (AttributeError, TypeError):  # a callable without the usual attributes
        wrapper.__wrapped__ = original  # type: ignore[attr-defined]
