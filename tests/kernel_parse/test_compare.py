"""Kernel dumps compared file by file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.npu_layouts import to_blocks
from msprobe.kernel_parse.compare import COLUMNS, compare_kernels
from tests.core.tensor_files.files import Tensor, acl_file, bfloat16

VALUES = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def dump(folder: Path, time: int, outputs: list[np.ndarray]) -> Path:  # type: ignore[type-arg]
    """Write the runs of one kernel, and return the folder."""
    folder.mkdir()
    for number, values in enumerate(outputs):
        data = acl_file([Tensor(VALUES, 1)], [Tensor(values, 1)])
        (folder / f"Add.add_1.{number}.7.{time + number}").write_bytes(data)
    return folder


def test_pairs_by_kernel_and_run(tmp_path: Path) -> None:
    nan = VALUES.copy()
    nan[0, 0] = np.nan
    target = dump(tmp_path / "a", 1700000000000000, [VALUES * np.float32(1 + 1e-6), VALUES * 2, nan, VALUES])
    golden = dump(tmp_path / "b", 1800000000000000, [VALUES, VALUES, VALUES])
    comparison = compare_kernels(target, golden, tmp_path / "out")
    assert [(row[0], row[-2]) for row in comparison.rows] == [
        ("input.0", "pass"), ("output.0", "pass"),
        ("input.0", "pass"), ("output.0", "error"),
        ("input.0", "pass"), ("output.0", "error"),
        ("input.0", "error"), ("output.0", "error"),
    ]  # fmt: skip
    reasons = [row[-1] for row in comparison.rows if row[-2] == "error"]
    assert "times the tolerance of float32" in reasons[0]
    assert reasons[1:] == ["NaN or infinity on one side only", *["only the target has it"] * 2]
    rows = list(csv.reader(comparison.table.read_text("utf-8-sig").splitlines()))
    assert tuple(rows[0]) == COLUMNS and len(rows) == 9
    assert comparison.table.name.startswith("batch_compare_")


def test_a_damaged_file_is_no_pass(tmp_path: Path) -> None:
    target, golden = dump(tmp_path / "a", 1700000000000000, [VALUES]), dump(tmp_path / "b", 1700000000000000, [VALUES])
    next(golden.iterdir()).write_bytes(b"x")
    (row,) = compare_kernels(target, golden, tmp_path / "out").rows
    assert row[-2] == "error" and "format is not known" in row[-1]


def one(folder: Path, name: str, tensor: Tensor) -> Path:
    """Write a file with one output, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(acl_file([], [tensor]))
    return folder


def test_layouts_and_types_that_differ(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(20, 40)).astype(np.float32)
    stored = to_blocks(values, "FRACTAL_NZ")
    target, golden = tmp_path / "a", tmp_path / "b"
    for name, left, right in (
        ("nz", Tensor(stored, 1, 29, values.shape), Tensor(values, 1)),
        ("bf16", Tensor(bfloat16(values), 27), Tensor(values, 1)),
        ("fp16", Tensor(values.astype(np.float16), 2), Tensor(values * 1.5, 1)),
        ("padded", Tensor(stored, 1, 29), Tensor(values, 1)),
        ("string", Tensor(values, 13), Tensor(values, 1)),
    ):
        one(target, f"MatMul.{name}.1.2.1700000000000000", left)
        one(golden, f"MatMul.{name}.9.9.1800000000000000", right)
    found = {Path(row[1]).name.split(".")[1]: row[-2:] for row in compare_kernels(target, golden, tmp_path / "o").rows}
    assert found["nz"] == ("pass", "") and found["bf16"] == ("pass", "")
    assert found["fp16"][0] == "error" and "times the tolerance of float16" in found["fp16"][1]
    assert found["padded"] == ("error", "shape [32, 48] against [20, 40]")
    assert found["string"] == ("error", "output.0: data type 13 cannot be read")


def test_folders_are_paired_whatever_the_time_in_their_names(tmp_path: Path) -> None:
    for side, time in (("a", "20240101120000"), ("b", "20250101120000")):
        for device in ("0", "1"):
            # Device 1 begins first: pairs by time alone would cross the devices.
            name = f"Add.add.1.2.170000000000000{1 - int(device)}"
            one(tmp_path / side / time / device, name, Tensor(VALUES * (1 + int(device)), 1))
    rows = compare_kernels(tmp_path / "a", tmp_path / "b", tmp_path / "out").rows
    assert [row[-2] for row in rows] == ["pass", "pass"]


def test_names_of_mindspore(tmp_path: Path) -> None:
    stem = "MatMul.Default_fc-op0.0.0.{}.output.0"
    stored = to_blocks(np.ones((16, 16), np.float32), "FRACTAL_NZ")
    for side, time, end, values in (
        ("a", 1795238291770896, "FRACTAL_NZ.Float32", stored),
        ("b", 1895238291770896, "DefaultFormat.Float32", np.ones((16, 16), np.float32)),
    ):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / f"{stem.format(time)}.{end}.npy", values)
    (row,) = compare_kernels(tmp_path / "a", tmp_path / "b", tmp_path / "out").rows
    assert row[-2] == "pass"


def test_long_names_of_mindspore_stand_in_a_table(tmp_path: Path) -> None:
    for side, time, short in (("a", 1795238291770896, "123"), ("b", 1895238291770896, "456")):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / f"{short}.npy", VALUES)
        full = f"Add.Default_long-op0.0.0.{time}.output.0.DefaultFormat.npy"
        (tmp_path / side / "mapping.csv").write_text(f"{short},{full}\n")
    (row,) = compare_kernels(tmp_path / "a", tmp_path / "b", tmp_path / "out").rows
    assert row[-2] == "pass"


def test_a_file_against_a_folder(tmp_path: Path) -> None:
    folder = one(tmp_path / "a", "Add.add.1.2.1700000000000000", Tensor(VALUES, 1))
    with pytest.raises(ReadError, match="one is a file and one a folder"):
        compare_kernels(folder, next(folder.iterdir()), tmp_path / "out")


def test_tables_of_one_second_stay(tmp_path: Path) -> None:
    folder = one(tmp_path / "a", "Add.add.1.2.1700000000000000", Tensor(VALUES, 1))
    tables = {compare_kernels(folder, folder, tmp_path / "out").table for _ in range(3)}
    assert len(tables) == 3 and all(table.exists() for table in tables)
