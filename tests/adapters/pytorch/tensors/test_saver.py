"""The files of tensors: whatever the dtype, shape and strides, torch reads back what was saved."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.adapters.pytorch.tensors import saver as tensor_saver
from msprobe.adapters.pytorch.tensors.saver import TensorSaver
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.store.tensor_reader import read_tensor

pytestmark = pytest.mark.torch

COMMON = list(tensor_saver._STORAGES)
OTHERS = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tensors")


def of_bytes(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Any bit patterns, NaN with payload included; a bool is 0 or 1."""
    size = int(np.prod(shape)) * dtype.itemsize
    content = np.random.default_rng(seed).integers(0, 2 if dtype == torch.bool else 256, size, np.uint8)
    return torch.from_numpy(content).view(dtype).reshape(shape) if size else torch.empty(shape, dtype=dtype)


def bits(tensor: torch.Tensor) -> bytes:
    dense = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).reshape(-1)
    return dense.view(torch.uint8).numpy().tobytes() if dense.numel() else b""


def check(saver: TensorSaver, tensor: torch.Tensor, path: Path) -> None:
    saver.save(tensor, path)
    by_torch = path.with_name("torch.pt")
    torch.save(tensor.contiguous().clone(), by_torch)
    wanted = torch.load(by_torch, weights_only=True)
    for mapped in (False, True):
        found = torch.load(path, weights_only=True, mmap=mapped)
        assert (found.dtype, found.shape, found.requires_grad) == (wanted.dtype, wanted.shape, False)
        assert bits(found) == bits(wanted)
        assert found.is_contiguous()
    with zipfile.ZipFile(path) as members:
        assert members.testzip() is None
        assert "archive/data.pkl" in members.namelist()


SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 7, 300]), max_size=4).filter(lambda shape: np.prod(shape) < 10**5)


@pytest.mark.parametrize("native", [True, False], ids=["native", "zlib"])
@settings(max_examples=60)
@given(dtype=st.sampled_from(COMMON), shape=SHAPES.map(tuple), seed=st.integers(0, 1000), data=st.data())
def test_torch_reads_what_was_saved(
    native: bool, folder: Path, dtype: torch.dtype, shape: tuple[int, ...], seed: int, data: st.DataObject
) -> None:
    tensor = of_bytes(dtype, shape, seed)
    if data.draw(st.booleans(), label="moved") and shape:
        tensor = tensor.movedim(0, -1)
    if data.draw(st.booleans(), label="every second") and shape:
        tensor = tensor[..., ::2]
    if data.draw(st.booleans(), label="expanded"):
        tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    check(TensorSaver(native), tensor, folder / "x.pt")


@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_other_dtypes_go_through_torch(folder: Path, dtype: torch.dtype) -> None:
    check(TensorSaver(True), of_bytes(dtype, (3, 4), 0)[1:], folder / "other.pt")


def test_a_tensor_of_gigabytes_goes_through_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_saver, "LARGEST", 64)
    check(TensorSaver(True), torch.arange(16.0), folder / "large.pt")
    check(TensorSaver(True), torch.arange(15.0), folder / "small.pt")


def test_a_step_of_memory_far_away_is_not_read(folder: Path) -> None:
    view = torch.as_strided(torch.arange(3_000_001.0), (2, 2), (2_999_990, 7))
    check(TensorSaver(True), view, folder / "far.pt")
    assert (folder / "far.pt").stat().st_size < 1000


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint16], ids=str)
def test_the_file_keeps_the_values_of_its_moment(tmp_path: Path, dtype: torch.dtype) -> None:
    saver, tensor = TensorSaver(True), torch.ones(4).to(dtype)
    saver.save(tensor, tmp_path / "before.pt")
    tensor.data.fill_(2)  # the version counter does not see this
    saver.save(tensor, tmp_path / "after.pt")
    tensor.zero_()
    assert torch.load(tmp_path / "before.pt", weights_only=True).tolist() == [1, 1, 1, 1]
    assert torch.load(tmp_path / "after.pt", weights_only=True).tolist() == [2, 2, 2, 2]


def test_the_same_bytes_of_another_dtype_or_shape_are_another_file(tmp_path: Path) -> None:
    saver = TensorSaver(True)
    zeros = {"a": torch.zeros(4), "b": torch.zeros(2, 2), "c": torch.zeros(4, dtype=torch.int32), "d": torch.zeros(4)}
    for name, tensor in zeros.items():
        saver.save(tensor, tmp_path / f"{name}.pt")
    for name, tensor in zeros.items():
        found = torch.load(tmp_path / f"{name}.pt", weights_only=True)
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert [os.stat(tmp_path / f"{name}.pt").st_nlink for name in "abcd"] == [2, 1, 1, 2]


NARROW = [value for name, value in vars(torch).items() if name.startswith("float8_")]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", [*NARROW, torch.complex32], ids=str)
@pytest.mark.parametrize("turn", [False, True], ids=["dense", "turned"])
def test_narrow_dtypes_are_read_back(dtype: Any, turn: bool, tmp_path: Path) -> None:
    tensor = torch.tensor([[0.5, 1.0, 2.0], [4.0, 8.0, 16.0]]).to(dtype)
    if dtype.is_complex:
        tensor = tensor.to(torch.complex64).mul(1 - 2j).to(dtype)
    tensor = tensor.t() if turn else tensor
    assert TorchTensorOps().save(tensor, tmp_path / "x.pt")
    read, wide = read_tensor(tmp_path / "x.pt"), tensor.to(torch.complex64 if dtype.is_complex else torch.float32)
    assert str(read.dtype) == str(wide.dtype).rpartition(".")[2]
    assert read.tolist() == wide.tolist()
