"""The reader of protobuf messages against an encoder of its own, and against damaged bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.protobuf import fields, integers
from tests.core.tensor_files.encoder import message, packed


@given(st.lists(st.tuples(st.integers(1, 1000), st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=50)))))
def test_round_trip(parts: list[tuple[int, int | bytes]]) -> None:
    found = [
        (one.number, one.value if isinstance(one.value, int) else bytes(one.value))
        for one in fields(memoryview(message(parts)))
    ]
    assert found == parts


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_packed_integers(values: list[int]) -> None:
    (found,) = fields(memoryview(message([(1, packed(values))])))
    assert integers(found) == values


@given(st.binary(max_size=200))
def test_no_bytes_fail_in_another_way(data: bytes) -> None:
    with contextlib.suppress(ReadError):
        for one in fields(memoryview(data)):
            assert one.number > 0


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\x0a\x05ab", b"\xff" * 12, b"\x03", b"\x00\x01"])
def test_damaged(data: bytes) -> None:
    with pytest.raises(ReadError):
        list(fields(memoryview(data)))


def test_wrong_kinds() -> None:
    number, text = fields(memoryview(message([(1, 5), (2, b"x")])))
    assert (number.integer, text.text) == (5, "x")
    with pytest.raises(ReadError, match="field 1 holds a number"):
        _ = number.data
    with pytest.raises(ReadError, match="field 2 holds bytes"):
        _ = text.integer
