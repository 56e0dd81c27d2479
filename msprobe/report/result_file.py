"""Result files: private to the user, under a name no other file has, there only when they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msprobe.core.store.safe_files import FILE_MODE


def new_file(folder: Path, stem: str, suffix: str) -> tuple[Path, int]:
    """Create ``stem + suffix``, or the first free ``stem_1``, ``stem_2``...; returns path and file descriptor."""
    number = 0
    while True:
        path = folder / f"{stem}{f'_{number}' if number else ''}{suffix}"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            number += 1


def named(temporary: Path, folder: Path, stem: str, suffix: str) -> Path:
    """Give a finished file its name, one that no other file has."""
    path, descriptor = new_file(folder, stem, suffix)
    os.close(descriptor)
    os.replace(temporary, path)
    return path


@contextmanager
def unfinished(folder: Path, stem: str) -> Iterator[tuple[Path, int]]:
    """A file to write to and then to give its name with ``named``; it is removed when the work breaks off."""
    temporary, descriptor = new_file(folder, f".{stem}", ".tmp")
    try:
        yield temporary, descriptor
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
