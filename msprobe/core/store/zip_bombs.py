"""Zip files that somebody gives: a few megabytes can unpack to more than a machine holds."""

from __future__ import annotations

import zipfile
import zlib

UNREADABLE_ZIP = (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError)
"""What is raised while a damaged zip file is read."""
_SMALL = 64 << 20
_MOST_PACKED = 200
"""What is larger than ``_SMALL`` and shrinks to less than this part is nothing that a program writes."""


def is_swollen(size: int, packed: int) -> bool:
    """Return whether ``size`` bytes are far more than what takes ``packed`` bytes in a file can stand for."""
    return size > max(_SMALL, _MOST_PACKED * packed)


def swollen_member(archive: zipfile.ZipFile) -> str:
    """Return which member of an archive unpacks to far more than it takes, and to how much; "" where none does."""
    for one in archive.infolist():
        if is_swollen(one.file_size, one.compress_size):
            return f"{one.filename[:80]!r} unpacks to {one.file_size >> 20} MB"
    return ""
