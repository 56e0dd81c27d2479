"""Write the tensor files of one folder at a time; equal tensors become hard links to the first file.

The inputs of a call are mostly outputs of other calls, so about half of the tensors of a step have been written before.
A file with the same storage class, shape and CRC-32 is read back and compared byte by byte before it is linked.

A file gets its name when it is complete. One that cannot be written completely is removed; a killed process leaves at
most a hidden file that ends in ``.tmp``.

A ``Frame`` holds the bytes around the elements of one dense tensor in a ``.pt`` file, which is the zip archive that
``torch.save`` writes:

    head | crc | head | elements | tail | crc | tail

Only the elements and their CRC-32 differ between two tensors of one storage class and shape, so a frame is computed
once and cached. Members are not compressed, as torch's reader requires, and the elements begin at a multiple of 64
bytes, so that ``torch.load(mmap=True)`` returns aligned tensors.

Sources of the format: PKWARE APPNOTE.TXT 6.3 (zip), ``torch.serialization`` (names of the members, pickle of protocol 2
with storages as persistent ids).
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path

from msprobe.core.interruption import ignored, let_through
from msprobe.core.store.safe_files import create_new, temporary_beside

LARGEST = 1 << 31
"""Bytes of elements from which a file needs the 64-bit forms of zip and pickle, which this module does not write."""

_CHUNK = 1 << 16
_MOST_FILES = 1 << 16

Piece = bytes | memoryview
_Key = tuple[str, tuple[int, ...], int]

_ALIGNMENT = 64
_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
_VERSION, _NO_FLAGS, _STORED, _MIDNIGHT, _FIRST_OF_1980 = 20, 0, 0, 0, 0x21
_PADDING = struct.Struct("<2sH")
_CRC_IN_LOCAL = 14
_CRC_IN_CENTRAL = 16
_ELEMENTS = b"archive/data/0"


class TensorFiles:
    """Writes ``.pt`` files. It remembers at most 65536 files, of the current folder only."""

    def __init__(self) -> None:
        self._folder = ""
        self._written: dict[_Key, str] = {}

    def write(self, path: str | Path, kind: tuple[str, int], shape: tuple[int, ...], elements: Piece, crc: int) -> None:
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
        text = str(path)  # names are cut out of the text: with Path that would be a tenth of the time of a small file
        folder, _, name = text.rpartition("/")
        if folder != self._folder or len(self._written) >= _MOST_FILES:
            self._folder = folder
            self._written = {}
        key = (kind[0], shape, crc)
        pieces = frame(kind[0], shape, kind[1]).around(elements, crc)
        earlier = self._written.get(key)
        if earlier is None or not _link(f"{folder}/{earlier}", text, pieces):
            write_new(text, pieces)
            self._written[key] = name


def write_new(path: str, pieces: Sequence[Piece]) -> None:
    """Write ``pieces`` one after the other as a file that replaces ``path`` when it is complete.

    It does what ``safe_files.replacement`` does, without contexts, which cost a tenth of the time of a small file.

    Raises:
        OSError: the file cannot be written; no file is left.
    """
    temporary = temporary_beside(path)
    file = create_new(temporary)
    try:
        try:
            _write_all(file, pieces)
        finally:
            os.close(file)
        os.rename(temporary, path)
    except BaseException:
        with ignored(OSError):
            os.unlink(temporary)
        raise


def _write_all(file: int, pieces: Sequence[Piece]) -> None:
    written = os.writev(file, pieces)
    if written == sum(map(len, pieces)):
        return
    left = [memoryview(piece) for piece in pieces]
    while left:
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if left:
            left[0] = left[0][written:]
            written = os.writev(file, left)


def _link(earlier: str, path: str, pieces: Sequence[Piece]) -> bool:
    """Make ``path`` a hard link to the file ``earlier`` if that holds ``pieces``, and return whether this was possible.

    It is not possible when the file is gone, the name exists, or the file system has no (more) hard links.
    """
    try:
        if not _holds(earlier, pieces):
            return False
        os.link(earlier, path)
    except OSError as error:
        let_through(error)
        return False
    return True


def _holds(path: str, pieces: Sequence[Piece]) -> bool:
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


@dataclass(frozen=True, slots=True)
class Frame:
    """A tensor file without the elements and their CRC-32."""

    head: tuple[bytes, bytes]
    tail: tuple[bytes, bytes]

    def around(self, elements: bytes | memoryview, crc: int) -> list[bytes | memoryview]:
        """Return the complete file in three pieces; ``crc`` is the CRC-32 of the bytes of ``elements``."""
        written = crc.to_bytes(4, "little")
        return [written.join(self.head), elements, written.join(self.tail)]


@lru_cache(maxsize=4096)
def frame(storage: str, shape: tuple[int, ...], itemsize: int) -> Frame:
    """Return the frame of row-major tensors.

    Args:
        storage: torch's storage class, as ``FloatStorage``.
        shape: elements per dimension; ``()`` for a single element.
        itemsize: bytes per element; all of them together must be fewer than ``LARGEST``.
    """
    small = {
        b"archive/data.pkl": _pickle(storage, shape),
        b"archive/byteorder": sys.byteorder.encode("ascii"),
        b"archive/version": b"3\n",
    }
    head, entries = b"", b""
    for name, content in small.items():
        crc = zlib.crc32(content)
        entries += _entry(name, crc, len(content), len(head))
        head += _local(name, crc, len(content), b"") + content
    start, size = len(head), prod(shape) * itemsize
    begin = start + _LOCAL.size + len(_ELEMENTS) + _PADDING.size
    padding = -begin % _ALIGNMENT
    head += _local(_ELEMENTS, 0, size, _PADDING.pack(b"FB", padding) + b"Z" * padding)
    at = len(entries)
    entries += _entry(_ELEMENTS, 0, size, start)
    members = len(small) + 1
    tail = entries + _END.pack(b"PK\x05\x06", 0, 0, members, members, len(entries), len(head) + size, 0)
    return Frame(_without_crc(head, start + _CRC_IN_LOCAL), _without_crc(tail, at + _CRC_IN_CENTRAL))


def _pickle(storage: str, shape: tuple[int, ...]) -> bytes:
    """Return the pickle of ``_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)``."""
    strides = tuple(prod(max(size, 1) for size in shape[dim + 1 :]) for dim in range(len(shape)))
    return b"".join([
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n",
        storage.encode("ascii"),
        b"\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu",
        _pickled(prod(shape)),
        b"tQ",
        _pickled(0),
        _pickled(shape),
        _pickled(strides),
        b"\x89ccollections\nOrderedDict\n)RtR.",
    ])


def _pickled(value: int | tuple[int, ...]) -> bytes:
    """Return the instructions that push ``value`` on the stack of the pickle, without header and end of a pickle."""
    return pickle.dumps(value, 2)[2:-1]


def _local(name: bytes, crc: int, size: int, extra: bytes) -> bytes:
    fixed = (b"PK\x03\x04", _VERSION, _NO_FLAGS, _STORED, _MIDNIGHT, _FIRST_OF_1980)
    return _LOCAL.pack(*fixed, crc, size, size, len(name), len(extra)) + name + extra


def _entry(name: bytes, crc: int, size: int, start: int) -> bytes:
    fixed = (b"PK\x01\x02", _VERSION, _VERSION, _NO_FLAGS, _STORED, _MIDNIGHT, _FIRST_OF_1980)
    return _CENTRAL.pack(*fixed, crc, size, size, len(name), 0, 0, 0, 0, 0, start) + name


def _without_crc(text: bytes, offset: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after the four bytes of a CRC."""
    return text[:offset], text[offset + 4 :]
