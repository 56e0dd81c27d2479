"""Rows of tensors found in the files of the other side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.compare.verdict.row_twins import RowTwins

Raw = dict[str, Any]


class Files:
    """Writes tensors as the files of two runs."""

    def __init__(self, folder: Path) -> None:
        self.folders = folder / "target", folder / "golden"
        self.sides: tuple[list[Raw], list[Raw]] = [], []
        for own in self.folders:
            own.mkdir()

    def add(self, side: int, array: Any) -> Raw:
        name = f"{len(self.sides[side])}.npy"
        np.save(self.folders[side] / name, array)
        raw = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(array.shape), "data_name": name}
        self.sides[side].append(raw)
        return raw

    def twins(self) -> RowTwins:
        return RowTwins(self.sides, self.folders, lambda raw: 2e-5)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def whole() -> Any:
    return np.random.default_rng(0).normal(size=(2, 7, 8)).astype(np.float32)


def test_rows_in_another_order_and_shape_have_twins(files: Files, whole: Any) -> None:
    files.add(1, whole)
    rounded = (whole.reshape(-1, 8)[[11, 0, 3]] * (1 + 1e-6)).astype(np.float32)
    part = files.add(0, rounded)
    assert files.twins().apart(0, part) < 2e-5


def test_rows_may_lie_in_several_tensors(files: Files, whole: Any) -> None:
    for row in whole.reshape(-1, 8):
        files.add(1, row)
    assert files.twins().apart(0, files.add(0, whole)) == 0.0


def test_one_other_row_is_a_difference(files: Files, whole: Any) -> None:
    files.add(1, whole)
    part = whole[0, :3].copy()
    part[1, 2] += 1e-3
    raw = files.add(0, part)
    twins = files.twins()
    assert twins.apart(0, raw) == math.inf and twins.has_any(0, raw)


@pytest.mark.parametrize("change", ["shape", "dtype", "missing", "outside", "nan"])
def test_what_cannot_be_read_has_no_twins(files: Files, whole: Any, change: str) -> None:
    files.add(1, whole)
    raw = files.add(0, whole[0])
    if change == "shape":
        raw["shape"] = [8, 8]
    elif change == "dtype":
        np.save(files.folders[0] / raw["data_name"], whole[0].astype(np.int64))
    elif change == "missing":
        (files.folders[0] / raw["data_name"]).unlink()
    elif change == "outside":
        raw["data_name"] = "../golden/0.npy"
    else:
        np.save(files.folders[0] / raw["data_name"], whole[0] * math.nan)
    assert files.twins().apart(0, raw) == math.inf and not files.twins().has_any(0, raw)


def test_narrow_rows_say_nothing(files: Files) -> None:
    files.add(1, np.ones((5, 2), np.float32))
    assert files.twins().apart(0, files.add(0, np.ones((3, 2), np.float32))) == math.inf


@pytest.mark.parametrize("length", [math.nan, math.inf, "8", None])
def test_a_tensor_of_a_damaged_shape_has_no_rows(files: Files, whole: Any, length: object) -> None:
    files.add(1, whole)
    own = files.add(0, whole)
    own["shape"] = [2, 7, length]
    assert files.twins().apart(0, own) == math.inf
    assert not files.twins().has_any(0, own)
