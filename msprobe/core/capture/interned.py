"""Small tuples that thousands of waiting calls have in common, held once.

Each object that waits for a gradient brings the garbage collector closer, which walks the whole program.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any


def interned(parts: Iterable[Any]) -> tuple[Any, ...]:
    """The one tuple of these ``parts``; where a list or a dict is among them, a tuple of its own."""
    pattern = tuple(parts)
    try:
        return _only(pattern)
    except TypeError:
        return pattern


@lru_cache(maxsize=1024)
def _only(pattern: tuple[Any, ...]) -> tuple[Any, ...]:
    return pattern
