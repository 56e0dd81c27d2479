"""Inputs of models: files, shapes, drawn values, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from msprobe.core.errors import MsprobeException
from msprobe.offline_models.inputs import drawn_inputs, read_inputs, read_shapes, shapes_in_range
from msprobe.offline_models.model_file import Model, read_model
from tests.offline_models.exported import save


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return read_model(save(tmp_path, [helper.make_node("Abs", ["x"], ["y"])], {}))


def test_a_bin_file_has_the_shape_that_its_size_tells(model: Model, tmp_path: Path) -> None:
    values = np.arange(8, dtype=np.float32)
    values.tofile(tmp_path / "x.bin")
    np.testing.assert_array_equal(read_inputs([tmp_path / "x.bin"], model, {})["x"], values.reshape(2, 4))


def test_float64_that_float32_holds_is_taken(model: Model, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((3, 4)))
    assert read_inputs([tmp_path / "x.npy"], model, {})["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, 5), np.float32), r"shape \[2, 5\], but the input x of the model is \[n, 4\]"),
        (np.full((2, 4), 0.1), "float64, but the input x of the model is float32"),
        (np.ones((2, 4), np.int64), "int64, but the input x of the model is float32"),
    ],
)
def test_files_that_do_not_fit(model: Model, tmp_path: Path, array: np.ndarray, message: str) -> None:  # type: ignore[type-arg]
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(MsprobeException, match=message):
        read_inputs([tmp_path / "x.npy"], model, {})


def test_a_bin_file_of_another_size(model: Model, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(30))
    with pytest.raises(MsprobeException, match="30 bytes are not float of shape"):
        read_inputs([tmp_path / "x.bin"], model, {})


def test_shapes(model: Model) -> None:
    assert read_shapes("x:2,4", model) == {"x": (2, 4)}
    assert [shapes["x"] for shapes in shapes_in_range("x:1~2,4-8", model)] == [(1, 4), (1, 8), (2, 4), (2, 8)]


@pytest.mark.parametrize("text", ["x", "z:1", "x:a", "x:1~0", "x:1~9999", "x:1~90,1~90"])
def test_wrong_shapes(model: Model, text: str) -> None:
    with pytest.raises(MsprobeException, match=r"--dym_shape_range|no input"):
        shapes_in_range(text, model)


def test_drawn_inputs_are_the_same_each_time(model: Model) -> None:
    first, second = (drawn_inputs(model, {"x": (5, 4)})["x"] for _ in range(2))
    assert first.shape == (5, 4)
    np.testing.assert_array_equal(first, second)
