"""``msprobe compare -m``: model files and folders of kernel files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from msprobe.cli.main import run
from tests.core.tensor_files.files import Tensor, acl_file
from tests.offline_models.exported import save

VALUES = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("mode", ["offline_data", "atb", "torchair"])
def test_files_of_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str) -> None:
    for side, factor in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / side).mkdir()
        data = acl_file([Tensor(VALUES, 1)], [Tensor(VALUES * np.float32(factor), 1)])
        (tmp_path / side / "Add.add_1.1.7.1700000000000000").write_bytes(data)
    words = ["compare", "-m", mode, "-o", str(tmp_path / "out"), "--fail-on", "diverged", "-gp", str(tmp_path / "a")]
    assert run([*words, "-tp", str(tmp_path / "b")]) == 0
    assert "2 tensors: 0 differ" in capsys.readouterr().out
    assert run([*words, "-tp", str(tmp_path / "c")]) == 1
    text = capsys.readouterr().out
    assert "error: Add.add_1.1.7.1700000000000000 output.0: differs by" in text and "Verdict: DIVERGED" in text


def test_two_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, weight in (("good", 1.0), ("bad", 1.5)):
        (tmp_path / name).mkdir()
        nodes = [
            helper.make_node("Relu", ["x"], ["r"], "first"),
            helper.make_node("MatMul", ["r", "w"], ["y"], "second"),
        ]
        paths.append(str(save(tmp_path / name, nodes, {"w": np.eye(4, dtype=np.float32) * np.float32(weight)})))
    words = ["compare", "-m", "offline_model", "-gp", paths[0], "-o", str(tmp_path / "out"), "--input_shape", "x:2,4"]
    assert run([*words, "-tp", paths[0], "--fail-on", "diverged"]) == 0
    assert "Verdict: SAME" in capsys.readouterr().out
    assert run([*words, "-tp", paths[1], "--fail-on", "diverged"]) == 1
    assert "First wrong node: second (MatMul)" in capsys.readouterr().out
    assert run([*words, "-tp", paths[1], "--json", "-"]) == 0
    assert capsys.readouterr().out.startswith("{")
    assert run([*words, "-tp", paths[0], "--mask", "m", "--step", "0", "--policy", "reference"]) == 0
    assert "so this is not used: --mask, --step\n" in capsys.readouterr().err


def test_inputs_and_shapes_of_two_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "only")]
    model = str(save(tmp_path, nodes, {"w": np.eye(4, dtype=np.float32)}))
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    words = ["compare", "-m", "offline_model", "-tp", model, "-gp", model, "--fail-on", "diverged"]
    given = ["--input_data", str(tmp_path / "x.npy"), "--output_size", "12", "-ofs", "True"]
    assert run([*words, "-o", str(tmp_path / "a"), *given]) == 0
    assert "x [3, 4]" in capsys.readouterr().out
    assert run([*words, "-o", str(tmp_path / "b"), "--dym_shape_range", "x:1~2,4"]) == 0
    out = capsys.readouterr().out
    assert "x [1, 4]" in out and "x [2, 4]" in out
