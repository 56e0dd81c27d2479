"""Files that are either whole or absent: write beside the target, then rename over it. Private to the user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_folder(folder: Path) -> None:
    """Create ``folder`` and its missing parents, readable by the user alone. An existing folder keeps its mode."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_private(path: Path, flags: int) -> int:
    """Open ``path`` with os.open ``flags``; a new file gets mode 0600."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def write_atomic(path: Path, chunks: Iterable[bytes]) -> int:
    """Replace ``path`` by the joined ``chunks`` in one step and return the size in bytes.

    Raises:
        OSError: the disk is full or the folder cannot be written; the old file, if any, is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    size = 0
    try:
        with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb", 1 << 20) as file:
            for chunk in chunks:
                size += file.write(chunk)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return size
