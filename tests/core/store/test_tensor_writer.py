"""The archive around a tensor's elements: what torch and zip readers find in it."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.store.tensor_writer import frame

SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5, 255, 256, 70_000]), max_size=4).map(tuple)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frames") / "x.pt"


@given(shape=SHAPES.filter(lambda shape: np.prod(shape, dtype=object) < 10**6), seed=st.integers(0, 2**32 - 1))
def test_elements_come_back(path: Path, shape: tuple[int, ...], seed: int) -> None:
    wanted = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    elements = wanted.tobytes()
    content = b"".join(frame("FloatStorage", shape, 4).around(elements, zlib.crc32(elements)))
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "archive/data.pkl"
        assert archive.read("archive/data/0") == elements
    found = read_tensor(path)
    assert found.shape == shape
    assert found.tobytes() == elements


@pytest.mark.parametrize("cut", [1, 22, 60, 200])
def test_a_cut_file_is_no_archive(path: Path, cut: int) -> None:
    content = b"".join(frame("FloatStorage", (4,), 4).around(bytes(16), zlib.crc32(bytes(16))))
    path.write_bytes(content[:-cut])
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(path)


def test_a_dimension_beyond_32_bits_with_no_elements(path: Path) -> None:
    path.write_bytes(b"".join(frame("FloatStorage", (0, 1 << 40), 4).around(b"", 0)))
    assert read_tensor(path).shape == (0, 1 << 40)
