"""Small tuples that thousands of waiting calls have in common, held once.

Each object that waits for a gradient makes the garbage collector run sooner, and it walks the whole program.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any


def interned(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Return a tuple of ``parts``, the same object each time; a new tuple where a list or a dict is among them."""
    pattern = tuple(parts)
    try:
        return _shared_tuple(pattern)
    except TypeError:
        return pattern


@lru_cache(maxsize=1024)
def _shared_tuple(pattern: tuple[Any, ...]) -> tuple[Any, ...]:
    return pattern
