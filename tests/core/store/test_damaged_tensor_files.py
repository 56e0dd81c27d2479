"""Damaged and hostile tensor files: a clear error with the path, or an array."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import read_tensor


@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
@settings(max_examples=300)
@given(
    st.sampled_from(["npy", "pt"]),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 5000),
)
def test_a_damaged_tensor_file_is_a_clear_error(
    tensor_files: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    changes: list[tuple[int, int]],
    size: int,
) -> None:
    content = bytearray(tensor_files[kind])
    for place, byte in changes:
        content[place % len(content)] = byte
    path = tmp_path_factory.mktemp("tensor") / f"a.{kind}"
    path.write_bytes(content[: max(size, 60)])
    try:
        array = read_tensor(path)
    except ReadError as error:
        assert str(path) in str(error)
    else:
        assert isinstance(array, np.ndarray)
        assert array.tobytes() == array.copy().tobytes()  # every element can be read
        assert array.nbytes <= len(content), "more elements than the file has bytes for"


@pytest.mark.parametrize(
    "head",
    [
        b"{'descr': '<f4', 'shape': (10000000000000,), 'fortran_order': False}",
        b"(" * 9000,
        b"{'descr': 'bfloat16'}",
        b"{'descr': ',f8', 'shape': (3, 4), 'fortran_order': False}",
    ],
    ids=["asks-for-too-much", "deep", "short", "no-dtype"],
)
def test_a_hostile_head_of_a_tensor_file(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(head)) + head)
    with pytest.raises(ReadError, match=r"not a readable tensor file"):
        read_tensor(path)


@pytest.fixture(scope="module")
def tensor_files() -> dict[str, bytes]:
    files = {"npy": io.BytesIO(), "pt": io.BytesIO()}
    np.save(files["npy"], np.arange(12.0).reshape(3, 4))
    pytest.importorskip("torch").save(pytest.importorskip("torch").ones(5, 6), files["pt"])
    return {kind: file.getvalue() for kind, file in files.items()}


def test_a_file_of_python_2_is_an_error_where_warnings_are(tmp_path: Path) -> None:
    """numpy warns of it, and the tests make errors of warnings, as a program may."""
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }".ljust(117) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + b"\0" * 8)
    with pytest.raises(ReadError, match=r"not a readable tensor file .*Python 2"):
        read_tensor(path)
