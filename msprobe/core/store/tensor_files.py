"""Writes the tensor files of one folder at a time; equal tensors become hard links to the first file.

The inputs of a call are mostly outputs of other calls, so about half of the tensors of a step have been written before.
A file with the same storage class, shape and CRC-32 is read back and compared byte by byte before it is linked.

A file that cannot be written completely is removed. A file that a killed process left incomplete has no journal entry
and no directory at its end, so no reader takes it for a tensor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msprobe.core.store.atomic import create_new
from msprobe.core.store.pt_frame import frame

_CHUNK = 1 << 16
_MOST_FILES = 1 << 16

Piece = bytes | memoryview
_Key = tuple[str, tuple[int, ...], int]


class TensorFiles:
    """Writes ``.pt`` files. It remembers at most 65536 files, of the current folder only."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._written: dict[_Key, str] = {}

    def write(self, path: Path, kind: tuple[str, int], shape: tuple[int, ...], elements: Piece, crc: int) -> None:
        """Write a row-major tensor to ``path``.

        Args:
            path: an existing file or link is replaced.
            kind: torch's storage class and the bytes per element.
            shape: elements per dimension.
            elements: their bytes.
            crc: the CRC-32 of these bytes.

        Raises:
            OSError: the file cannot be written; no file is left.
        """
        if path.parent != self._folder or len(self._written) >= _MOST_FILES:
            self._folder = path.parent
            self._written = {}
        key = (kind[0], shape, crc)
        pieces = frame(kind[0], shape, kind[1]).around(elements, crc)
        earlier = self._written.get(key)
        if earlier is None or not _link(path.with_name(earlier), path, pieces):
            write_new(path, pieces)
            self._written[key] = path.name


def write_new(path: Path, pieces: Sequence[Piece]) -> None:
    """Write ``pieces`` one after the other as a new file.

    Raises:
        OSError: the file cannot be written; no file is left.
    """
    file = create_new(path)
    try:
        _write_all(file, pieces)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(file)


def _write_all(file: int, pieces: Sequence[Piece]) -> None:
    left = [memoryview(piece) for piece in pieces]
    while left:
        written = os.writev(file, left)
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if left:
            left[0] = left[0][written:]


def _link(earlier: Path, path: Path, pieces: Sequence[Piece]) -> bool:
    """Make ``path`` a hard link to the file ``earlier`` if that holds ``pieces``, and return whether this was possible.

    It is not possible when the file is gone, the name exists, or the file system has no (more) hard links.
    """
    try:
        if not _holds(earlier, pieces):
            return False
        os.link(earlier, path)
    except OSError:
        return False
    return True


def _holds(path: Path, pieces: Sequence[Piece]) -> bool:
    size = sum(len(piece) for piece in pieces)
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    try:
        if size < _CHUNK:
            return os.read(file, size + 1) == b"".join(pieces)
        if os.fstat(file).st_size != size:
            return False
        return all(_continues_with(file, piece) for piece in pieces)
    finally:
        os.close(file)


def _continues_with(file: int, piece: Piece) -> bool:
    """Return whether the next bytes of ``file`` equal ``piece``; compared in chunks that fit into the cache."""
    buffer = bytearray(min(len(piece), _CHUNK))
    for start in range(0, len(piece), _CHUNK):
        expected = memoryview(piece)[start : start + _CHUNK]
        if len(expected) != len(buffer):
            buffer = bytearray(len(expected))
        if os.readv(file, [buffer]) != len(expected) or buffer != expected:
            return False
    return True
