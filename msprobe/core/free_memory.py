"""Returns free memory to the system.

The C library keeps the memory of large texts and arrays after they are gone, in every process of its own.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def trim_memory() -> None:
    """Return the free memory of the C library to the system, where it can (glibc); takes a few milliseconds."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # a system whose C library has no such name
        return None
