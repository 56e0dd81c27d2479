"""Reads messages of Protocol Buffers field by field, without generated code.

The wire format (protobuf.dev/programming-guides/encoding): each field is a tag, ``number << 3 | type``, and a value.
Types are 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes. Bytes are views of the buffer: nothing large is
copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msprobe.core.errors import ReadError

_LONGEST_VARINT = 10
MOST_FIELDS = 1 << 20
_FIXED = {1: 8, 5: 4}


class Field(NamedTuple):
    """One field: its number, and an integer (varint, fixed) or the bytes."""

    number: int
    value: int | memoryview

    @property
    def integer(self) -> int:
        """Return the value of an integer field.

        Raises:
            ReadError: the field holds bytes.
        """
        if not isinstance(self.value, int):
            raise ReadError(f"field {self.number} holds bytes where a number is expected")
        return self.value

    @property
    def data(self) -> memoryview:
        """Return the bytes of a field.

        Raises:
            ReadError: the field holds a number.
        """
        if isinstance(self.value, int):
            raise ReadError(f"field {self.number} holds a number where bytes are expected")
        return self.value

    @property
    def text(self) -> str:
        """Return the bytes of a field as text."""
        return bytes(self.data).decode("utf-8", "replace")


def fields(message: memoryview, most: int = MOST_FIELDS) -> Iterator[Field]:
    """Yield the fields of a message in the order of the file.

    Args:
        message: its bytes.
        most: how many fields a message of this kind may have, which bounds the time that damaged bytes take.

    Raises:
        ReadError: the bytes are no message, or it has more fields.
    """
    at, count = 0, 0
    while at < len(message):
        count += 1
        if count > most:
            raise ReadError(f"more than {most} fields in one message; the file is damaged")
        tag, at = read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise ReadError("a field has the number 0; this is no protobuf message")
        if kind == 0:
            value, at = read_varint(message, at)
            yield Field(number, value)
            continue
        size = _FIXED.get(kind)
        if size is None and kind == 2:
            size, at = read_varint(message, at)
        if size is None or size > len(message) - at:
            raise ReadError(f"field {number} is damaged; this is no protobuf message, or it is cut off")
        part = message[at : at + size]
        yield Field(number, part if kind == 2 else int.from_bytes(part, "little"))
        at += size


def read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the integer that begins at ``at``, and the position behind it.

    Raises:
        ReadError: it does not end, or has more than 64 bits.
    """
    value = 0
    for count, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + count + 1
    raise ReadError("a number does not end; this is no protobuf message, or it is cut off")


def integers(field: Field, most: int = MOST_FIELDS) -> list[int]:
    """Return the values of a repeated integer field, packed or not; values are signed 64-bit numbers.

    Raises:
        ReadError: the bytes are no integers, or more than ``most``.
    """
    if isinstance(field.value, int):
        return [_signed(field.value)]
    found: list[int] = []
    at = 0
    while at < len(field.value):
        if len(found) == most:
            raise ReadError(f"field {field.number} has more than {most} numbers; the file is damaged")
        value, at = read_varint(field.value, at)
        found.append(_signed(value))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
