"""Dumps of ACL: encoded independently, read back; damaged and hostile ones refused."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.acl_dump import DTYPES, is_acl_dump, read_acl_dump
from msprobe.core.tensor_files.npu_layouts import to_blocks
from tests.core.tensor_files.files import Tensor, acl_file, bfloat16, dump_data, framed

NUMBERS = {name: number for number, name in reversed(DTYPES.items())}
SMALL_FLOATS = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
PLAIN = np.arange(20 * 40, dtype=np.float16).reshape(20, 40)


@pytest.mark.parametrize("inline", [False, True])
def test_inputs_and_outputs(tmp_path: Path, inline: bool) -> None:
    path = tmp_path / "MatMul.matmul.1.2.1700000000000000"
    inputs = [Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), 1), Tensor(bfloat16([1.5, -2.0]), 27)]
    outputs = [Tensor(to_blocks(PLAIN, "FRACTAL_NZ"), 2, 29, PLAIN.shape)]
    path.write_bytes(acl_file(inputs, outputs, inline))
    assert is_acl_dump(path)
    found = {one.name: one for one in read_acl_dump(path)}
    assert found["input.0"].values().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (found["input.1"].dtype.name, found["input.1"].values().tolist()) == ("bfloat16", [1.5, -2.0])
    assert (found["output.0"].layout, found["output.0"].values().tolist()) == ("FRACTAL_NZ", PLAIN.tolist())


@pytest.mark.parametrize(
    "name",
    [name for name in NUMBERS if name in {"bool", "float16", "float32", "float64", "complex64", "complex128"}]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
)
def test_dtypes(tmp_path: Path, name: str) -> None:
    values = np.array([0, 1, 1]).astype(name)
    (tmp_path / "a").write_bytes(acl_file([Tensor(values, NUMBERS[name])], []))
    (found,) = read_acl_dump(tmp_path / "a")
    assert (found.values().dtype.name, found.values().tolist()) == (name, values.tolist())


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_floats_as_ml_dtypes_reads_them(tmp_path: Path, name: str) -> None:
    bits = np.arange(256, dtype=np.uint8)
    (tmp_path / "a").write_bytes(acl_file([Tensor(bits, NUMBERS[name])], []))
    (found,) = read_acl_dump(tmp_path / "a")
    assert found.values().dtype == np.float32
    assert np.array_equal(found.values(), bits.view(getattr(ml_dtypes, name)).astype(np.float32), equal_nan=True)


def test_bfloat16_as_ml_dtypes_reads_it(tmp_path: Path) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    (tmp_path / "a").write_bytes(acl_file([], [Tensor(bits, 27)]))
    (found,) = read_acl_dump(tmp_path / "a")
    with np.errstate(invalid="ignore"):
        expected = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(found.values(), expected, equal_nan=True)


def test_complex32_and_int4(tmp_path: Path) -> None:
    parts = np.array([1.5, -2.0, 0.0, 3.0], np.float16)
    packed = np.array([0x21, 0xFF, 0x08], np.uint8)
    header = acl_file([Tensor(parts.view(np.uint32), 32)], [Tensor(packed, 28)])
    (tmp_path / "a").write_bytes(header.replace(b"\x1a\x03\x0a\x01\x03", b"\x1a\x03\x0a\x01\x05"))  # five of int4
    complex32, int4 = read_acl_dump(tmp_path / "a")
    assert complex32.values().tolist() == [1.5 - 2j, 3j]
    assert (int4.values().dtype.name, int4.values().tolist()) == ("int8", [1, 2, -1, -1, -8])


def test_hifloat8(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(acl_file([Tensor(np.array([0, 0x08, 0x88, 0x6F], np.uint8), 33)], []))
    assert read_acl_dump(tmp_path / "a")[0].values().tolist() == [0.0, 1.0, -1.0, np.inf]


@pytest.mark.parametrize("inline", [False, True])
def test_buffers(tmp_path: Path, inline: bool) -> None:
    (tmp_path / "a").write_bytes(acl_file([], [Tensor(np.ones(2, np.float32), 1)], inline, [b"\x01\x02", b"\x03"]))
    found = {one.name: one.values().tolist() for one in read_acl_dump(tmp_path / "a")}
    assert found == {"output.0": [1, 1], "buffer.0": [1, 2], "buffer.1": [3]}


def test_tensors_that_cannot_be_read_do_not_hide_the_others(tmp_path: Path) -> None:
    nothing = Tensor(np.ones(0, np.float32), 1)
    string, grouped = Tensor(np.ones(3, np.float32), 13), Tensor(np.ones((1, 1, 16, 16), np.float32), 1, 4 | 2 << 8)
    data = acl_file([string, grouped, nothing], [Tensor(np.ones(3, np.float32), 1)])
    data = data.replace(b"\x1a\x03\x0a\x01\x00", b"\x1a\x03\x0a\x01\x07")  # seven elements, none of them in the file
    (tmp_path / "a").write_bytes(data)
    *bad, good = read_acl_dump(tmp_path / "a")
    assert good.values().tolist() == [1, 1, 1]
    reasons = ("data type 13 cannot be read", "FRACTAL_Z in 2 groups cannot be read", "the dump holds no data of it")
    for one, reason in zip(bad, reasons, strict=True):
        with pytest.raises(ReadError, match=rf"input\.\d: {reason}"):
            one.values()


def test_memory_that_is_padded_at_its_end(tmp_path: Path) -> None:
    data = acl_file([Tensor(np.arange(4, dtype=np.float32), 1)], [])
    smaller = data.replace(b"\x1a\x03\x0a\x01\x04", b"\x1a\x03\x0a\x01\x03")
    (tmp_path / "a").write_bytes(smaller)
    assert read_acl_dump(tmp_path / "a")[0].values().tolist() == [0, 1, 2]


def test_cut_off(tmp_path: Path) -> None:
    whole = acl_file([Tensor(np.arange(4, dtype=np.float32), 1)], [Tensor(np.ones(3, np.float32), 1)])
    for size in (5, 9, 30, len(whole) - 1):
        (tmp_path / "a").write_bytes(whole[:size])
        with pytest.raises(ReadError, match="a: "):
            read_acl_dump(tmp_path / "a")


def dumped(**fields: object) -> bytes:
    """Return a dump of one input with fields of any value."""
    dump = dump_data()()
    added = dump.input.add(data_type=1, **{name: value for name, value in fields.items() if name != "dims"})
    added.shape.dim.extend(fields.get("dims", ()))
    return framed(dump)


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"",
        lambda: b"\x00" * 64,
        lambda: b"\xff" * 64,
        lambda: (1 << 62).to_bytes(8, "little") + b"\x0a",
        lambda: (2).to_bytes(8, "little") + b"\x22\x7f",
        lambda: dumped(dims=[2**63] * 32, size=8) + bytes(8),
        lambda: dumped(dims=[2**64 - 1], size=8) + bytes(8),
        lambda: dumped(dims=[1] * 33, size=4) + bytes(4),
        lambda: dumped(dims=[1] * 1_000_000, size=4) + bytes(4),
        lambda: dumped(dims=[1], size=2**64 - 1) + bytes(4),
        lambda: dumped(dims=[2**40], size=4) + bytes(4),
        lambda: b"\x0b" + bytes(7) + b"\x10" + b"\xff" * 9 + b"\x7f",
        lambda: (4 << 20).to_bytes(8, "little") + b"\x10\x00" * (2 << 20),
        lambda: (4 << 20).to_bytes(8, "little") + b"\x22\x00" * (2 << 20),
    ],
    ids=range(14),
)
def test_hostile_files_are_refused_in_bounded_time(tmp_path: Path, make: Callable[[], bytes]) -> None:
    (tmp_path / "a").write_bytes(make())
    begin = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(ReadError) as caught:
            for one in read_acl_dump(tmp_path / "a"):
                one.values()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert "\n" not in caught.value.error_info and len(caught.value.error_info) < 400 + len(str(tmp_path))
    assert time.process_time() - begin < 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=40), st.integers(0, 60))
def test_damaged_bytes_are_refused_or_read(tmp_path: Path, junk: bytes, at: int) -> None:
    whole = acl_file([Tensor(np.arange(4, dtype=np.float32), 1)], [])
    (tmp_path / "a").write_bytes(whole[:at] + junk + whole[at + len(junk) :])
    with contextlib.suppress(ReadError):
        for one in read_acl_dump(tmp_path / "a"):
            one.values()


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_headers_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, header: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\x01" * 64)
    with contextlib.suppress(ReadError):
        for one in read_acl_dump(path):
            with contextlib.suppress(ReadError):
                one.values()
