"""Files of torch.save: tensors come out, nothing in them runs."""

from __future__ import annotations

import argparse
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.adapters.pytorch.checkpoints.checkpoint_reader import read_checkpoint
from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor

pytestmark = pytest.mark.torch


class _Runs:
    """When it is unpickled as usual, it calls ``function`` with ``argument``."""

    def __init__(self, function: Any, argument: str) -> None:
        self._call = function, (argument,)

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize(
    "function",
    [pytest.param(os.system, id="os-system"), pytest.param(eval, id="eval"), pytest.param(Path, id="harmless")],
)
def test_nothing_in_a_file_runs(function: Any, tmp_path: Path) -> None:
    made = tmp_path / "made"
    argument = f"touch {made}" if function is os.system else f"open({str(made)!r}, 'w')"
    torch.save({"w": torch.ones(2), "object": _Runs(function, argument)}, tmp_path / "w.pt")
    try:
        found = read_checkpoint(tmp_path / "w.pt")
    except ReadError:
        assert function is os.system  # torch refuses the module itself
    else:
        assert found["object"] == {} and isinstance(found["w"], LazyTensor)
    assert not made.exists()


def test_attributes_of_objects_are_dictionaries(tmp_path: Path) -> None:
    arguments = argparse.Namespace(size=2, kind=np.float64(3.0), inner=argparse.Namespace(deep=1))
    torch.save({"args": arguments, "numpy": np.arange(3), "list": (1, [2])}, tmp_path / "w.pt")
    found = read_checkpoint(tmp_path / "w.pt")
    assert (found["args"]["size"], found["args"]["inner"], found["list"]) == (2, {"deep": 1}, [1, [2]])


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.float8_e5m2,
        torch.uint16,
    ],
    ids=str,
)
def test_elements_are_those_of_the_tensor(dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]).to(dtype)
    torch.save({"plain": values, "view": values.t()}, tmp_path / "w.pt")
    found = read_checkpoint(tmp_path / "w.pt")
    for name, expected in (("plain", values), ("view", values.t())):
        assert found[name].shape == tuple(expected.shape)
        assert found[name].read().tobytes() == expected.contiguous().view(torch.uint8).numpy().tobytes()


def test_elements_of_a_compressed_archive_are_unpacked(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(60.0)}, tmp_path / "w.pt")
    with (
        zipfile.ZipFile(tmp_path / "w.pt") as old,
        zipfile.ZipFile(tmp_path / "v.pt", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    np.testing.assert_array_equal(read_checkpoint(tmp_path / "v.pt")["w"].read(), np.arange(60.0))


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("damage") / "w.pt"
    torch.save({"w": torch.arange(100.0), "args": argparse.Namespace(a=1)}, path)
    return path.read_bytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_an_error_of_ours_or_still_a_dictionary(
    data: st.DataObject, content: bytes, tmp_path: Path
) -> None:
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(len(content) // 2, len(content))) :]
    (tmp_path / "w.pt").write_bytes(damaged)
    try:
        found = read_checkpoint(tmp_path / "w.pt")
    except ReadError as error:
        assert "w.pt" in str(error) and "\n" not in str(error)
    else:
        assert found is None or isinstance(found, (dict, list, int, str, float, bytes, LazyTensor, tuple))


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="no such file"):
        read_checkpoint(tmp_path / "w.pt")
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "text.pt").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("a/b", "c")
    for name in ("pickle.pt", "text.pt", "zip.pt"):
        with pytest.raises(ReadError, match=name):
            read_checkpoint(tmp_path / name)
