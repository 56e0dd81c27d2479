"""What no rule about code excuses: a tensor file that is not what was recorded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import msprobe
from msprobe.core.tensors.projection import KEY, projection
from tests.compare.dumps import Entry, module, tensor, write

BLOCK = "Module.block.Block.forward.0"
VALUES = np.linspace(-1.5, 2.0, 32, dtype=np.float32).reshape(4, 8)


def described(values: Any, file: str) -> Entry:
    wide = values.astype(np.float64)
    numbers = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
    told = {name: float(number) for name, number in numbers.items()}
    return tensor(shape=values.shape, data_name=file) | told | {KEY: projection(wide)}


def run(folder: Path, given: Any, file: Any = None) -> Path:
    """Record a module that is given ``given`` and returns the same in all runs; ``file`` is saved instead of it."""
    files = {"given.npy": given if file is None else file, "result.npy": VALUES}
    (folder / "dump_tensor_data").mkdir(parents=True)
    for name, values in files.items():
        np.save(folder / "dump_tensor_data" / name, values)
    leaves = described(given, "given.npy"), described(VALUES, "result.npy")
    return write(folder, {BLOCK: module([leaves[0]], [leaves[1]])}, task="tensor")


def with_one(value: float) -> Any:
    changed = VALUES.copy()
    changed[1, 2] = value
    return changed


@pytest.mark.parametrize("value", [9.0, 0.0, math.nan, math.inf])
@pytest.mark.parametrize("damaged", [0, 1], ids=["target", "golden"])
def test_a_damaged_file_is_excused_by_no_result_that_agrees(tmp_path: Path, value: float, damaged: int) -> None:
    files = [None, None]
    files[damaged] = with_one(value)
    sides = [run(tmp_path / side, VALUES, file) for side, file in zip("tg", files, strict=True)]
    result = msprobe.compare(*sides)
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None and found.slot == "input.0"
    assert any("1 of 2 tensor files are not what was recorded" in line for line in result.summary.incomplete)


def test_another_value_that_was_recorded_has_no_consequence(tmp_path: Path) -> None:
    result = msprobe.compare(run(tmp_path / "t", with_one(9.0)), run(tmp_path / "g", VALUES))
    assert result.verdict == "same" and "without consequence" in result.summary.reason
    assert not result.summary.incomplete
