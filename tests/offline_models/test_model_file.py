"""Files that are no model, or not one that runs here: one line each."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from msprobe.core.errors import ReadError
from msprobe.offline_models.model_file import is_model_file, read_model
from tests.offline_models.exported import save


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.om", "on an NPU with CANN only"),
        ("a.air", "on an NPU with CANN only"),
        ("a.mindir", "runs in MindSpore only"),
        ("a.onnx", "no ONNX model"),
        ("a.txt", "does not end in .onnx"),
        ("absent.onnx", "no such file"),
    ],
)
def test_refuses(tmp_path: Path, name: str, message: str) -> None:
    if name != "absent.onnx":
        (tmp_path / name).write_text("junk")
    with pytest.raises(ReadError, match=message):
        read_model(tmp_path / name)


def test_an_empty_graph(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").touch()
    with pytest.raises(ReadError, match="has no nodes"):
        read_model(tmp_path / "a.onnx")


def test_weights_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("Abs", ["x"], ["y"])], {})
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[1], data_location=1)
    tensor.external_data.add(key="location", value="../../secret")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ReadError, match="outside of the model's folder"):
        read_model(path)


def test_suffixes() -> None:
    assert is_model_file(Path("a.ONNX")) and is_model_file(Path("a.om")) and not is_model_file(Path("dump.json"))
