"""Tensor files of one folder at a time: each written once, equal ones as further names (hard links) of the first.

What goes into a call mostly came out of another, so about half of the tensors of a step have been written before. A
file with the same storage class, shape and CRC-32 is read back and compared byte by byte; only then is it linked.

A file that could not be written to its end is removed. One that a killed process left half written has no journal
entry that names it and no directory of its archive, so nobody takes it for a tensor.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msprobe.core.store.atomic import create_new
from msprobe.core.store.pt_frame import frame

_CHUNK = 1 << 16
_REMEMBERED = 1 << 16

Piece = bytes | memoryview
_Key = tuple[str, tuple[int, ...], int]


class TensorFiles:
    """Writes ``.pt`` files. Not more than one folder is remembered, and not more than 65536 files of it."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._written: dict[_Key, str] = {}

    def write(self, path: Path, kind: tuple[str, int], shape: tuple[int, ...], elements: Piece, crc: int) -> None:
        """Make ``path`` the file of a row-major tensor.

        Args:
            path: replaced when there is such a file or link already.
            kind: torch's storage class and the bytes per element.
            shape: elements per dimension.
            elements: their bytes.
            crc: the CRC-32 of these bytes.

        Raises:
            OSError: the file cannot be written; there is none then.
        """
        if path.parent != self._folder or len(self._written) >= _REMEMBERED:
            self._folder = path.parent
            self._written = {}
        key = (kind[0], shape, crc)
        pieces = frame(kind[0], shape, kind[1]).around(elements, crc)
        earlier = self._written.get(key)
        if earlier is None or not _link(path.with_name(earlier), path, pieces):
            write_new(path, pieces)
            self._written[key] = path.name


def write_new(path: Path, pieces: Sequence[Piece]) -> None:
    """Write ``pieces`` one after the other as a new file; OSError and no file when that fails."""
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
    """Give the file ``earlier`` the further name ``path`` if ``pieces`` are what it holds.

    False when they are not, it is gone, the name is taken, or the file system has no more or no such links.
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
    """Whether the next bytes of ``file`` are those of ``piece``, looked at some at a time: they stay in the cache."""
    buffer = bytearray(min(len(piece), _CHUNK))
    for start in range(0, len(piece), _CHUNK):
        wanted = memoryview(piece)[start : start + _CHUNK]
        if len(wanted) != len(buffer):
            buffer = bytearray(len(wanted))
        if os.readv(file, [buffer]) != len(wanted) or buffer != wanted:
            return False
    return True
