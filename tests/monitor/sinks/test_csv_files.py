"""The documented csv files: names, columns, digits, spans."""

from __future__ import annotations

import csv
import errno
import math
import os
from pathlib import Path
from typing import Any

import pytest

from msprobe.monitor.rows import Row
from msprobe.monitor.sinks.csv_files import CsvFiles
from msprobe.monitor.sources import ACTIVATION, GRADIENT_REDUCED, Source

NAMES = ("norm", "shape", "dtype")


def row(step: int, name: str, norm: Any, source: Source = GRADIENT_REDUCED, micro: int | None = None) -> Row:
    values = (norm, (4, 8), "torch.float32") if norm is not None else (None,) * 3
    return Row(source, 0, name, step, micro, NAMES, values)


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_each_source_has_a_file_for_each_span(tmp_path: Path) -> None:
    files = CsvFiles(tmp_path / "run", 0, 2, 3)
    for step in range(3):
        files.write(step, [row(step, "fc.weight", 1.23456), row(step, "fc.input", 2.0, ACTIVATION, 0)])
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["actv_0-1.csv", "actv_2-3.csv", "grad_reduced_0-1.csv", "grad_reduced_2-3.csv"]
    first, second = read(tmp_path / "run" / "grad_reduced_0-1.csv")
    assert first == {
        "vpp_stage": "0", "name": "fc.weight", "step": "0", "norm": "1.235", "shape": "[4, 8]", "dtype": "torch.float32"
    }  # fmt: skip
    assert second["step"] == "1"
    assert read(tmp_path / "run" / "actv_0-1.csv")[0]["micro_step"] == "0"


def test_what_is_not_there_is_nan(tmp_path: Path) -> None:
    CsvFiles(tmp_path, 0, 1, 6).write(0, [row(0, "a", None), row(0, "b", math.nan), row(0, "c", math.inf)])
    rows = read(tmp_path / "grad_reduced_0-0.csv")
    assert [one["norm"] for one in rows] == ["nan", "nan", "inf"]
    assert rows[0]["shape"] == "nan"


def test_nothing_measured_makes_no_folder(tmp_path: Path) -> None:
    CsvFiles(tmp_path / "run", 0, 1, 6).write(0, [])
    assert not (tmp_path / "run").exists()


def test_an_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(OSError):
        CsvFiles(tmp_path / "run", 0, 1, 6).write(0, [row(0, "a", 1.0)])


def test_a_disk_that_is_full_in_the_middle_of_a_step_leaves_no_half_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CsvFiles(tmp_path, 0, 10, 6)
    files.write(0, [row(0, "fc.weight", 1.0)])
    whole = (tmp_path / "grad_reduced_0-9.csv").read_text()
    write = os.write

    def half(file: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(file, data[: len(data) // 2])

    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match=r"grad_reduced_0-9\.csv"):
        files.write(1, [row(1, "fc.weight", 2.0)])
    monkeypatch.undo()
    assert (tmp_path / "grad_reduced_0-9.csv").read_text() == whole
    files.write(2, [row(2, "fc.weight", 3.0)])
    assert [one["step"] for one in read(tmp_path / "grad_reduced_0-9.csv")] == ["0", "2"]
