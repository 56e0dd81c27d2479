"""Two folders of SingleSave as tables: what agrees, what differs, what only one side has."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.errors import FileCheckException
from msprobe.saved_values.comparator import COLUMNS, SingleComparator, agreement


def put(root: Path, name: str, value: Any, key: str = "", step: int = 0) -> None:
    folder = root / "data" / name / f"step{step}" / "rank0" / "micro_step0"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}{key}.npy", value)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_one_table_per_name_in_the_order_of_steps_and_keys(tmp_path: Path) -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    y = x + np.array([[0, 0, 0], [0.005, 0, 3]], dtype=np.float32)
    for step in (10, 2):
        put(tmp_path / "a", "response", x, step=step)
        put(tmp_path / "b", "response", y, step=step)
    for key in (".10", ".2", ".key"):
        put(tmp_path / "a", "pair", x, key)
        put(tmp_path / "b", "pair", x, key)
    files = SingleComparator.compare(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "out"))
    assert [file.name for file in files] == ["pair.csv", "response.csv"]
    assert [row["id"] for row in table(files[0])] == ["2", "10", "key"]
    rows = table(files[1])
    assert [row["step"] for row in rows] == ["2", "10"]
    first = dict(zip(COLUMNS, rows[0].values(), strict=True))
    figures = [float(first[name]) for name in COLUMNS[6:12]]
    assert (first["shape1"], first["shape2"], first["Result"]) == ("[2, 3]", "[2, 3]", "error")
    assert figures == pytest.approx([400 / 6, 3, 3.0, 1 / 3, 400 / 6, 500 / 6])


def test_what_cannot_be_compared_has_a_row_without_figures(tmp_path: Path) -> None:
    put(tmp_path / "a", "ids", np.ones(2))
    put(tmp_path / "b", "ids", np.ones(3))
    put(tmp_path / "a", "lost", np.ones(2))
    put(tmp_path / "b", "new", np.ones(2))
    files = SingleComparator.compare(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "out"))
    rows = [row for file in files for row in table(file)]
    assert [row["note"] for row in rows] == ["shapes differ", "only in dir1", "only in dir2"]
    assert {row[name] for row in rows for name in COLUMNS[6:12]} == {""}


@pytest.mark.parametrize(
    ("a", "b", "equal", "absolute", "relative"),
    [
        ([0.0], [1.0], 0.0, 1.0, 1.0),
        ([np.nan], [np.nan], 100.0, 0.0, 0.0),
        ([np.nan], [1.0], 0.0, np.inf, np.inf),
        ([np.inf], [np.inf], 100.0, 0.0, 0.0),
        ([np.inf], [1.0], 0.0, np.inf, np.inf),
    ],
    ids=["zero", "both_nan", "one_nan", "both_infinite", "one_infinite"],
)
def test_zeros_and_what_is_not_finite(a: Any, b: Any, equal: float, absolute: float, relative: float) -> None:
    found = agreement(np.array(a), np.array(b))
    assert (found.equal, found.absolute, found.relative) == (equal, absolute, relative)


def test_unsigned_integers_do_not_wrap() -> None:
    found = agreement(np.array([0], np.uint8), np.array([255], np.uint8))
    assert (found.absolute, found.first) == (255.0, 0)


def test_large_integers_are_equal_only_exactly() -> None:
    assert agreement(np.array([2**53]), np.array([2**53 + 1])).equal == 0.0


def test_nothing_in_it_has_no_figures() -> None:
    assert agreement(np.ones(0), np.ones(0)).cells == (None,) * 6


def test_a_folder_without_values(tmp_path: Path) -> None:
    put(tmp_path / "a", "ids", np.ones(2))
    with pytest.raises(FileCheckException, match="nothing that SingleSave wrote"):
        SingleComparator.compare(str(tmp_path / "a"), str(tmp_path / "absent"), str(tmp_path / "out"))
