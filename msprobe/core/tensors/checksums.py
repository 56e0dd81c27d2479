"""Two checksums of the bytes of a tensor, in logical row-major order, little endian, in its own dtype.

* `crc32`: CRC-32 as zlib computes it, eight lower-case hex digits ("00000000" for no bytes). The documents call it
  md5 for historical reasons.
* `xor`: the exclusive or of all little-endian 64-bit words, the last one padded with zeros, as "0x" and sixteen hex
  digits.

Both serve to find differences between runs, not for security. They accept anything with a buffer, and an ndarray of any
layout: a strided or big-endian array is read through a small buffer and never copied as a whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.interruption import import_whole, let_through

Bytes = bytes | bytearray | memoryview
Data = Bytes | NDArray[Any]
_WORD = np.dtype("<u8")
_CHUNK_ELEMENTS = 1 << 16


@cache
def _fastest_crc() -> Callable[[Any, int], int]:
    """Return the CRC of isal or fastcrc when installed (same values, up to eight times faster), else of zlib."""
    for module, path in (("isal.isal_zlib", "crc32"), ("fastcrc", "crc32.iso_hdlc")):
        try:
            function: Any = import_whole(module)
        except ImportError as error:
            let_through(error)
            continue
        for part in path.split("."):
            function = getattr(function, part)
        return function  # type: ignore[no-any-return]
    return zlib.crc32


def format_crc32(value: int) -> str:
    """Return a CRC-32 in the form of the documents."""
    return f"{value:08x}"


def format_xor(value: int) -> str:
    """Return an XOR of 64-bit words in the form of the documents."""
    return f"0x{value:016x}"


def crc32(data: Data) -> str:
    """Return the CRC-32 of the bytes of `data`, e.g. "cbf43926".

    Raises:
        TypeError: `data` holds Python objects, which have no bytes of their own.
    """
    extend, running = _fastest_crc(), 0
    for piece in _pieces(data):
        running = extend(piece, running)
    return format_crc32(running)


def xor(data: Data) -> str:
    """Return the XOR of the 64-bit words of `data`, e.g. "0x0000000040203fc0".

    Raises:
        TypeError: `data` holds Python objects, which have no bytes of their own.
    """
    running, rest = 0, b""
    for piece in _pieces(data):
        if rest:
            piece = np.concatenate([np.frombuffer(rest, np.uint8), piece])
        whole = piece.size // 8 * 8
        running ^= int(np.bitwise_xor.reduce(piece[:whole].view(_WORD)))
        rest = piece[whole:].tobytes()
    return format_xor(running ^ int.from_bytes(rest, "little"))


def _pieces(data: Data) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes in logical order as one-dimensional arrays, each valid until the next one is requested."""
    if not isinstance(data, np.ndarray):
        yield np.frombuffer(data, np.uint8)
        return
    if data.dtype.hasobject:
        raise TypeError(f"an array of {data.dtype} holds Python objects and has no checksum")
    little = data.dtype.newbyteorder("<")
    if data.flags.c_contiguous and data.dtype == little:
        yield data.reshape(-1).view(np.uint8)
    elif data.size:
        for start in range(0, data.size, _CHUNK_ELEMENTS):
            yield data.flat[start : start + _CHUNK_ELEMENTS].astype(little, copy=False).view(np.uint8)
