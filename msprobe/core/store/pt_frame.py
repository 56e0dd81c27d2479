"""The bytes around the elements of one dense tensor in a ``.pt`` file: the zip archive that ``torch.save`` writes.

    head | crc | head | elements | tail | crc | tail

Only the elements and their CRC-32 differ between two tensors of one storage class and shape, so the other bytes are
made once. Members are not compressed, as torch's reader requires, and the elements begin at a multiple of 64 bytes, so
that ``torch.load(mmap=True)`` returns aligned tensors.

Sources of the format: PKWARE APPNOTE.TXT 6.3 (zip), ``torch.serialization`` (names of the members, pickle of
protocol 2 with storages as persistent ids).
"""

from __future__ import annotations

import pickle
import struct
import sys
import zlib
from dataclasses import dataclass
from functools import lru_cache
from math import prod

LARGEST = 1 << 31
"""Bytes of elements from which a file needs the 64-bit forms of zip and pickle, which this module does not write."""

_ALIGNMENT = 64
_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
_VERSION, _NO_FLAGS, _STORED, _MIDNIGHT, _FIRST_OF_1980 = 20, 0, 0, 0, 0x21
_PADDING = struct.Struct("<2sH")
_CRC_IN_LOCAL = 14
_CRC_IN_CENTRAL = 16
_ELEMENTS = b"archive/data/0"


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
    """``_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)`` as torch pickles it."""
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
