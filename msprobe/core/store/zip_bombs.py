"""Zip files that somebody gives: a few megabytes can unpack to more than a machine holds."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO

UNREADABLE_ZIP = (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError)
"""What is raised while a damaged zip file is read."""
_SMALL = 64 << 20
_MOST_PACKED = 200
"""What is larger than ``_SMALL`` and shrinks to less than this part is nothing that a program writes."""


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member, and no more than its header says.

    ``ZipFile.read`` unpacks up to 2 GB of it before it looks at the size there, which may be a lie.

    Raises:
        one of UNREADABLE_ZIP: the archive is damaged.
    """
    with archive.open(member) as file:
        return file.read(member.file_size)


def is_swollen(size: int, packed: int) -> bool:
    """Return whether ``size`` bytes are far more than what takes ``packed`` bytes in a file can stand for."""
    return size > max(_SMALL, _MOST_PACKED * packed)


def is_compressed(file: Path | IO[bytes]) -> bool:
    """Return whether a file is a zip archive with a member that is not stored as it is.

    Raises:
        ValueError: a member unpacks to far more than it takes.
    """
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        return False
    with archive:
        if swollen := swollen_member(archive):
            raise ValueError(swollen)
        return any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist())


def swollen_member(archive: zipfile.ZipFile) -> str:
    """Return which member of an archive unpacks to far more than it takes, and to how much; "" where none does."""
    for one in archive.infolist():
        if is_swollen(one.file_size, one.compress_size):
            return f"{one.filename[:80]!r} unpacks to {one.file_size >> 20} MB"
    return ""
