"""Elements as text, and elements that differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msprobe.core.errors import ReadError
from msprobe.kernel_parse.texts import compare_elements, write_texts


def test_texts(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1.5, np.nan], [3, 4]], np.float32))
    (written,) = write_texts(tmp_path / "a.npy")
    assert written.read_text() == "1.5 nan\n3 4\n"


def test_differing_elements(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2, np.nan, 4]))
    np.save(tmp_path / "b.npy", np.array([1, 2.1, np.nan, np.nan]))
    found = compare_elements(tmp_path / "a.npy", tmp_path / "b.npy", 0.001, 0.001, save=True)
    lines = ["[1]: 2 against 2.1", "[3]: 4 against nan", "2 of 4 elements differ (50 %)"]
    assert list(found.lines(20)) == lines
    assert list(found.lines(1)) == [lines[0], lines[-1]]
    assert (tmp_path / "a_compared.txt").read_text().splitlines() == lines


def test_shapes_that_differ(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(2))
    np.save(tmp_path / "b.npy", np.ones(3))
    with pytest.raises(ReadError, match=r"shape \[2\] against \[3\]"):
        compare_elements(tmp_path / "a.npy", tmp_path / "b.npy", 0, 0, save=False)
