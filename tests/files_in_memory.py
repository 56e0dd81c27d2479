"""The folder in memory that takes the temporary files of a test run, where the machine has one with room."""

from __future__ import annotations

import os
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
NEEDED = 2 << 30
"""Bytes; a run of the whole suite holds less than a quarter of them at a time."""


def memory_for_files(folder: Path = SHARED_MEMORY, needed: int = NEEDED) -> str | None:
    """Return the folder in memory; None where there is none, or one that is small or starts no programs."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return None
    system = os.statvfs(folder)
    small = system.f_bavail * system.f_frsize < needed
    return None if small or system.f_flag & os.ST_NOEXEC else str(folder)
