"""What stands in the records: every dtype, tensors in containers, files, checksums, errors of the user."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps
from msprobe.core.store.tensor_reader import read_tensor
from msprobe.core.tensors.dtypes import find_dtype, float8_values
from msprobe.core.tensors.projection import projection
from tests.adapters.bench import Bench

ARRAYS = {
    "bool": np.array([True, False]),
    "uint8": np.array([0, 255], np.uint8),
    "int64": np.array([-(2**53) - 1, 2**62]),
    "float16": np.linspace(-3, 7, 50, dtype=np.float16),
    "float64": np.linspace(-3, 7, 77),
    "complex64": np.array([3 + 4j, 0, -1j], np.complex64),
    "empty": np.zeros((0, 3), np.float32),
    "scalar": np.array(-2.5, np.float32),
}


class Echo:
    """A function of the user's own, so that any value may go through it."""

    @staticmethod
    def echo(*args: Any, **kwargs: Any) -> Any:
        return args[0] if args else None


def collected(bench: Bench, *args: Any, **kwargs: Any) -> Any:
    """The record of one call of ``Echo.echo``."""
    debugger = bench.open(**kwargs.pop("options", {}))
    debugger.register_custom_api(Echo, "echo", "Mine")
    debugger.start()
    Echo.echo(*args, **kwargs)
    debugger.stop()
    debugger.step()
    return bench.read().data["Mine.echo.0.forward"]


@pytest.mark.parametrize("name", ARRAYS)
def test_statistics_are_numpys(bench: Bench, name: str) -> None:
    array = ARRAYS[name]
    node = collected(bench, Tensor(array))["input_args"][0]
    assert node["type"] == "mindspore.Tensor"
    assert node["shape"] == list(array.shape)
    if not array.size:
        assert [node[key] for key in ("Max", "Min", "Mean", "Norm")] == [None] * 4
        return
    shown = np.abs(array) if array.dtype.kind == "c" else array
    assert (node["Max"], node["Min"]) == (shown.max(), shown.min())
    if array.dtype.kind == "f" and array.ndim:
        wide = array.astype(np.float64)
        assert np.isclose(node["Mean"], wide.mean(), rtol=1e-3)
        assert np.isclose(node["Norm"], np.linalg.norm(wide), rtol=1e-3)


def test_bfloat16_is_measured_and_saved_as_float32(bench: Bench) -> None:
    values = np.array([1.0, -2.5, 3.0], np.float32)
    node = collected(bench, Tensor(values, mindspore.bfloat16), options={"task": "tensor"})["input_args"][0]
    assert (node["dtype"], node["Max"], node["Min"], node["Mean"]) == ("BFloat16", 3.0, -2.5, 0.5)
    saved = bench.array(node["data_name"])
    assert (saved.dtype, saved.tolist()) == (np.dtype(np.float32), values.tolist())


FLOAT8 = [name for name in ("float8_e4m3fn", "float8_e5m2", "hifloat8") if hasattr(mindspore, name)]


@pytest.mark.parametrize("native", [True, False], ids=["kernel", "numpy"])
@pytest.mark.parametrize("name", FLOAT8)
def test_8_bit_floats_are_what_mindspore_makes_of_their_values(name: str, native: bool, tmp_path: Path) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    values = [value for value in float8_values(dtype) if math.isfinite(value)]
    tensor, operations = Tensor(values, dtype=getattr(mindspore, name)), MindSporeTensorOps(native=native)
    node = operations.describe(tensor, True)
    assert (find_dtype(node["dtype"]), node["Max"], node["Min"]) == (dtype, max(values), min(values))
    assert node["Norm"] == pytest.approx(float(np.linalg.norm(values)), rel=1e-6)
    operations.project(tensor, node)
    assert node["Projection"] == pytest.approx(projection(np.array(values)), rel=1e-12)
    assert operations.checksum(tensor, "crc32") is not None
    assert operations.save(tensor, tmp_path / "x.npy")
    assert read_tensor(tmp_path / "x.npy").tolist() == values


def test_8_bit_floats_are_saved_in_a_dump(bench: Bench) -> None:
    if not FLOAT8:
        pytest.skip("this MindSpore has none")
    tensor = Tensor([1.0, 2.0, 0.5], dtype=getattr(mindspore, FLOAT8[0]))
    node = collected(bench, tensor, options={"task": "tensor"})["input_args"][0]
    assert (node["Max"], bench.array(node["data_name"]).tolist()) == (2.0, [1.0, 2.0, 0.5])


def test_containers_and_keywords(bench: Bench) -> None:
    one = Tensor(np.ones(2, np.float32))
    record = collected(bench, [one, {"a": (one, 3)}], mask=one, kind=mindspore.float16)
    assert record["input_args"][0][1]["a"][0]["Max"] == 1
    assert record["input_kwargs"]["mask"]["Max"] == 1
    assert record["input_kwargs"]["kind"] == {"type": "mindspore.dtype", "value": "Float16"}


def test_md5_is_the_crc_of_the_bytes(bench: Bench) -> None:
    import zlib

    array = np.arange(6, dtype=np.float32)
    node = collected(bench, Tensor(array), options={"section": {"summary_mode": "md5"}})["input_args"][0]
    assert node["md5"] == f"{zlib.crc32(array.tobytes()):08x}"


def test_a_missing_kernel_still_reaches_the_user(bench: Bench) -> None:
    debugger = bench.open()
    debugger.start()
    with pytest.raises(RuntimeError, match="unregistered"):
        mint.norm(Tensor(np.ones((2, 2), np.float32))).asnumpy()
    ops.exp(Tensor(np.ones(2, np.float32)))
    debugger.stop()
    debugger.step()
    data = bench.read().data
    assert data["Mint.norm.0.forward"]["input_args"][0]["Max"] == 1
    assert np.isclose(data["Functional.exp.0.forward"]["output"][0]["Max"], np.e)


def test_filters_steps_and_forgotten_steps(bench: Bench) -> None:
    x = Tensor(np.ones(2, np.float32))
    debugger = bench.open(section={"list": ["exp"]}, step=[1, 3])
    for number in range(4):
        debugger.start()
        ops.tanh(ops.exp(x))
        debugger.stop()
        debugger.step(dump=number != 3)
    assert sorted(path.name for path in bench.root.iterdir()) == ["step1"]
    assert bench.read(1).names() == ["Functional.exp.0.forward"]


def test_tensor_list_chooses_the_files(bench: Bench) -> None:
    x = Tensor(np.ones(2, np.float32))
    debugger = bench.open(section={"tensor_list": ["exp"]})
    debugger.start()
    ops.tanh(ops.exp(x))
    debugger.stop()
    debugger.step()
    found = bench.read()
    assert found.names() == ["Functional.exp.0.forward", "Functional.tanh.0.forward"]
    assert found.files() == ["Functional.exp.0.forward.input.0.npy", "Functional.exp.0.forward.output.0.npy"]


def test_asynchronous_files_are_all_there_after_the_step(bench: Bench) -> None:
    debugger = bench.open(task="tensor", async_dump=True)
    debugger.start()
    y = ops.exp(Tensor(np.ones(3, np.float32)))
    debugger.stop()
    debugger.step()
    name = bench.read().data["Functional.exp.0.forward"]["output"][0]["data_name"]
    assert bench.array(name).tolist() == y.asnumpy().tolist()


def test_token_range_counts_the_calls_of_the_model(bench: Bench) -> None:
    model = nn.SequentialCell(nn.ReLU())
    debugger = bench.open("L0")
    debugger.start(model, token_range=[1, 2])
    for _ in range(4):
        model(Tensor(np.ones(2, np.float32)))
    debugger.stop()
    debugger.step()
    assert len([name for name in bench.read().names("ReLU") if ".forward." in name]) == 2


def test_parameters_are_measured_as_the_tensors_they_hold(bench: Bench) -> None:
    weight = mindspore.Parameter(Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)), name="weight")
    late = nn.Dense(4, 3).weight
    first = collected(bench, weight, late)["input_args"]
    assert (first[0]["Max"], first[0]["Min"], first[0]["Mean"]) == (11.0, 0.0, 5.5)
    assert first[1]["Max"] == late.asnumpy().max()
    weight.set_data(Tensor(np.full((3, 4), -2, np.float32)))
    assert collected(bench, weight)["input_args"][0]["Max"] == -2.0
