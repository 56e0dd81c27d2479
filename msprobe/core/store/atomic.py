"""Files that are complete or absent: they are written beside the target and renamed over it.

The permissions are those of ``modes``.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msprobe.core.store.modes import FILE_MODE, FOLDER_MODE

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


def make_folder(folder: Path) -> None:
    """Create ``folder`` and its missing parents with the mode of folders. An existing folder keeps its own."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_private(path: Path, flags: int) -> int:
    """Open ``path`` with os.open ``flags``; a new file gets the mode of files."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def create_new(path: Path) -> int:
    """Create and open a file at ``path``. A file or link of that name is unlinked first; what it points to stays."""
    try:
        return os.open(path, _NEW, FILE_MODE)
    except FileExistsError:
        mode = os.lstat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise
        os.unlink(path)
        return os.open(path, _NEW, FILE_MODE)


def write_atomic(path: Path, chunks: Iterable[bytes]) -> int:
    """Replace ``path`` by the joined ``chunks`` in one step and return the size in bytes.

    Raises:
        OSError: the disk is full or the folder cannot be written; the old file, if any, is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    size = 0
    try:
        with os.fdopen(create_new(temporary), "wb", 1 << 20) as file:
            for chunk in chunks:
                size += file.write(chunk)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return size
