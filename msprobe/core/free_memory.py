"""Memory that is free goes back to the system.

The C library keeps what large texts and arrays leave behind; several processes would each keep their own.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def give_back() -> None:
    """Give back what is free, where the C library can (glibc); a few milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # a system whose C library has no such name
        return None
