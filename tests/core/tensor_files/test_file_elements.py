"""Elements of a file, whole and a range at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.file_elements import elements_in_file
from msprobe.core.tensor_files.file_maps import FileMaps
from msprobe.core.tensors.dtypes import FLOAT32


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4), data=st.data())
def test_ranges_over_several_extents(sizes: list[int], data: st.DataObject, tmp_path: Path) -> None:
    values = np.arange(sum(sizes), dtype=np.float32)
    content, extents, at = b"", [], 0
    for size in sizes:
        content += b"gap"
        extents.append((len(content), 4 * size))
        content += values[at : at + size].tobytes()
        at += size
    (tmp_path / "f").write_bytes(content)
    tensor = elements_in_file(tmp_path / "f", extents, (len(values),), FLOAT32)
    assert tensor.read().tolist() == values.tolist()
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    assert tensor.read_range is not None and tensor.read_range(start, stop).tolist() == values[start:stop].tolist()


def test_a_file_that_became_shorter(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(8))
    tensor = elements_in_file(tmp_path / "f", [(0, 40)], (10,), FLOAT32)
    assert tensor.read_range is not None
    with pytest.raises(ReadError, match="cannot be read any more"):
        tensor.read_range(0, 10)
    (tmp_path / "f").unlink()
    for read in (tensor.read, lambda: tensor.read_range(0, 1)):  # type: ignore[misc]
        with pytest.raises(ReadError, match="cannot be read any more"):
            read()


def test_places_of_maps(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(10000))
    mapped = np.memmap(tmp_path / "f", np.uint8, "r", 0)
    maps = FileMaps.of(tmp_path / "f")
    address = mapped.ctypes.data
    if maps.maps:  # Linux
        assert maps.place_of(address + 5000, 100) == 5000
    assert maps.place_of(address - 1, 10) is None and maps.place_of(address, 1 << 30) is None
    assert FileMaps.of(tmp_path / "absent").place_of(address, 1) is None
