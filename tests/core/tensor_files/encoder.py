"""An encoder of protobuf messages, written from the wire format, that the readers are tested against."""

from __future__ import annotations

from collections.abc import Iterable


def varint(value: int) -> bytes:
    """Return the bytes of an integer; negative ones as 64-bit two's complement."""
    value %= 1 << 64
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def packed(values: Iterable[int]) -> bytes:
    """Return a packed list of integers."""
    return b"".join(varint(value) for value in values)


def message(parts: Iterable[tuple[int, int | bytes]]) -> bytes:
    """Return a message of numbered fields: integers as varints, bytes with their length."""
    data = b""
    for number, value in parts:
        if isinstance(value, int):
            data += varint(number << 3) + varint(value)
        else:
            data += varint(number << 3 | 2) + varint(len(value)) + value
    return data
