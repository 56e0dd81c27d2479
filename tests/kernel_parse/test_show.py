"""The table of ``msprobe parse --show``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msprobe.core.tensor_files import pieces
from msprobe.core.tensor_files.npu_layouts import to_blocks
from msprobe.core.tensors.numpy_ops import statistics
from msprobe.kernel_parse import show
from msprobe.kernel_parse.show import TITLES, described
from tests.core.tensor_files.files import Tensor, acl_file, atb_file, bfloat16

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_tensors_and_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(atb_file(Tensor(bfloat16(VALUES), 27)))
    (tmp_path / "b").write_bytes(acl_file([Tensor(VALUES, 13)], [Tensor(VALUES, 1)]))
    (tmp_path / "c").write_bytes(b"junk")
    (tmp_path / "notes.json").write_text("{}")
    titles, *rows = described(tmp_path, recursive=False)
    assert titles == TITLES
    assert rows[0] == ("a", "bfloat16", "[2, 3]", "ND", "5", "0", "2.5", "7.4162")
    assert rows[1] == ("b.input.0", "", "", "", "input.0: data type 13 cannot be read")
    assert rows[2] == ("b.output.0", "float32", "[2, 3]", "ND", "5", "0", "2.5", "7.4162")
    assert rows[3][0] == "c" and "its format is not known" in rows[3][-1]
    assert len(rows) == 4


@pytest.mark.parametrize("kind", [("float32", 1), ("int32", 7), ("bool", 11), ("complex64", 16), ("float16", 2)])
@pytest.mark.parametrize("special", [None, np.nan, np.inf])
@pytest.mark.parametrize("compiled", [True, False])
def test_statistics_of_pieces_are_those_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, int], special: float | None, compiled: bool
) -> None:
    monkeypatch.setattr(pieces, "_PIECE", 256)
    if not compiled:
        monkeypatch.setattr(show, "measuring", None)
    values = np.random.default_rng(1).normal(size=(33, 41), scale=5).astype(kind[0])
    if special is not None and values.dtype.kind in "fc":
        values[5, 5] = special
    stored = np.ascontiguousarray(to_blocks(values, "FRACTAL_NZ"))
    (tmp_path / "a").write_bytes(acl_file([Tensor(stored, kind[1], 29, values.shape)], []))
    _, row = described(tmp_path / "a", recursive=False)
    whole = statistics(values, precision="high")
    assert row[:4] == ("a.input.0", kind[0], "[33, 41]", "FRACTAL_NZ")
    for shown, expected in zip(row[4:], (whole.max, whole.min, whole.mean, whole.norm), strict=True):
        if expected is None:
            assert shown == ""
        else:
            assert float(shown == "True" or (shown != "False" and shown)) == pytest.approx(
                float(expected), rel=1e-5, abs=1e-6, nan_ok=True
            )


def test_tensors_without_elements(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(atb_file(Tensor(np.ones((0, 3), np.float32), 0)))
    _, row = described(tmp_path / "a.bin", recursive=False)
    assert row == ("a", "float32", "[0, 3]", "ND", "", "", "", "")
