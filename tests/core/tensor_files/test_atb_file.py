"""Files of ATB."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.atb_file import is_atb_file, read_atb_file
from msprobe.core.tensor_files.npu_layouts import to_blocks
from tests.core.tensor_files.files import Tensor, atb_file, bfloat16

VALUES = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    ("one", "name"),
    [
        (Tensor(VALUES.astype(np.float32), 0), "float32"),
        (Tensor(VALUES.astype(np.float16), 1), "float16"),
        (Tensor(VALUES.astype(np.int64), 9), "int64"),
        (Tensor(bfloat16(VALUES), 27), "bfloat16"),
        (Tensor(VALUES.astype(np.int8), 2), "int8"),
        (Tensor(VALUES.astype(np.int32), 3), "int32"),
    ],
)
def test_types(tmp_path: Path, one: Tensor, name: str) -> None:
    path = tmp_path / "0_inTensor1.bin"
    path.write_bytes(atb_file(one))
    assert is_atb_file(path)
    found = read_atb_file(path)
    assert (found.name, found.dtype.name, found.values().tolist()) == ("0_inTensor1", name, VALUES.tolist())


def test_layout(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(atb_file(Tensor(to_blocks(VALUES.astype(np.float32), "FRACTAL_NZ"), 0, 29)))
    values = read_atb_file(tmp_path / "a.bin").values()
    assert (values.shape, values[:2, :3].tolist()) == ((16, 16), VALUES.tolist())


@pytest.mark.parametrize(
    "data",
    [
        b"$Version=1.0\ndtype=0\n",
        b"$Version=1.0\nformat=2\n$End=1\n",
        b"$Version=1.0\ndtype=x\ndims=2\n$End=1\n",
        b"$Version=1.0\ndtype=0\ndims=" + b"1," * 33 + b"\n$End=1\n",
        b"$Version=1.0\ndtype=0\ndims=" + b"9" * 5000 + b"\n$End=1\n",
        b"$Version=1.0\n" + b"x" * (1 << 17) + b"$End=1\n",
        b"\xff" * 20,
        b"",
    ],
)
def test_damaged(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    with pytest.raises(ReadError, match=r"a\.bin"):
        read_atb_file(tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("dtype=99\ndims=2", "data type 99 cannot be read"),
        ("dtype=0\ndims=-2", r"no tensor has shape \[-2\]"),
        ("dtype=0\ndims=9999999999999999999,9", "8 bytes do not fit shape"),
        ("dtype=0\ndims=3", "8 bytes do not fit shape"),
        ("dtype=0\ndims=1", "8 bytes do not fit shape"),
        ("dtype=0\nformat=29\ndims=1,2", "none of FRACTAL_NZ"),
    ],
)
def test_heads_that_do_not_fit(tmp_path: Path, head: str, reason: str) -> None:
    (tmp_path / "a.bin").write_bytes(f"$Version=1.0\n{head}\n$End=1\n".encode() + bytes(8))
    with pytest.raises(ReadError, match=reason):
        read_atb_file(tmp_path / "a.bin").values()


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 90))
def test_damaged_bytes_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int) -> None:
    whole = atb_file(Tensor(VALUES.astype(np.float32), 0))
    path = tmp_path_factory.getbasetemp() / "random.bin"
    path.write_bytes(whole[:at] + junk + whole[at + len(junk) :])
    with contextlib.suppress(ReadError):
        read_atb_file(path).values()


def test_cut_off(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(atb_file(Tensor(VALUES.astype(np.float32), 0))[:-1])
    with pytest.raises(ReadError, match="23 bytes do not fit shape"):
        read_atb_file(tmp_path / "a.bin").values()
