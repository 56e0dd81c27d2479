"""Small tuples that thousands of waiting calls have in common, held once.

Each object that waits for a gradient brings the garbage collector closer, which walks the whole program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any


def interned(pattern: tuple[Any, ...]) -> tuple[Any, ...]:
    """The one tuple that is equal to ``pattern``; one that holds a list or a dict is given back as it is."""
    try:
        return _only(pattern)
    except TypeError:
        return pattern


@lru_cache(maxsize=1024)
def _only(pattern: tuple[Any, ...]) -> tuple[Any, ...]:
    return pattern
