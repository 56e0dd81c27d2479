"""Result files: readable by this user only, under a name that no other file has, and complete from the beginning.

A writer fills an ``unfinished`` file and gives it its name with ``publish``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msprobe.core.store.safe_files import FILE_MODE


def new_file(folder: Path, stem: str, suffix: str) -> tuple[Path, int]:
    """Create ``stem + suffix``, or the first free ``stem_1``, ``stem_2``...; return its path and file descriptor."""
    number = 0
    while True:
        path = folder / f"{stem}{f'_{number}' if number else ''}{suffix}"
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            number += 1


def publish(temporary: Path, folder: Path, stem: str, suffix: str) -> Path:
    """Rename a finished file to ``stem + suffix``, or to the first free such name; return its path."""
    path, descriptor = new_file(folder, stem, suffix)
    os.close(descriptor)
    os.replace(temporary, path)
    return path


@contextmanager
def unfinished(folder: Path, stem: str) -> Iterator[tuple[Path, int]]:
    """Yield path and file descriptor of a hidden file to write; an exception removes it."""
    temporary, descriptor = new_file(folder, f".{stem}", ".tmp")
    try:
        yield temporary, descriptor
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
