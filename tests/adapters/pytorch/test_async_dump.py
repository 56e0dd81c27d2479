"""async_dump: the same files as without it, from values as they were when the call was observed."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.dump.record import async_worker
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


def work() -> None:
    """Calls of many dtypes, an in-place one among them, then a training step."""
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int32):
        torch.add(torch.ones(3, 2, dtype=dtype), torch.full((3, 2), 2, dtype=dtype))
    value = torch.linspace(-1, 1, 6).reshape(2, 3)
    value.t().mul(2)
    F.relu(value, inplace=True)
    torch.add(torch.ones(()), torch.empty(0))


def collected(bench: Any, task: str, mode: str, asynchronous: bool) -> tuple[Any, dict[str, torch.Tensor]]:
    bench.root = bench.root.with_name(f"{task}-{mode}-{asynchronous}")
    debugger = bench.open("mix", task, {"summary_mode": mode}, async_dump=asynchronous, risk_level="ALL")
    torch.manual_seed(0)
    model = Mlp()
    debugger.start(model)
    work()
    model(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    return recorded.data, {name: recorded.tensor(name) for name in recorded.files()}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("mode", ["statistics", "md5", "xor"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_the_result_equals_the_synchronous_one(bench: Any, task: str, mode: str) -> None:
    expected, expected_files = collected(bench, task, mode, False)
    data, files = collected(bench, task, mode, True)
    assert json.dumps(data) == json.dumps(expected)  # with the order of keys, and NaN as NaN
    assert len(data) > 20
    assert files.keys() == expected_files.keys()
    assert all(torch.equal(files[name], expected_files[name]) for name in files)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_tensors_have_statistics_checksums_and_files(bench: Any, dtype: torch.dtype) -> None:
    value = torch.tensor([3 + 4j, -1j], dtype=dtype)
    debugger = bench.open("L1", "tensor", {"summary_mode": "md5"}, async_dump=True)
    debugger.start()
    result = torch.add(value, 0)
    debugger.stop()
    recorded = bench.read()
    node = recorded.data["Torch.add.0.forward"]["output"][0]
    assert (node["Max"], node["Min"], node["Mean"]) == (5.0, 1.0, 3.0)
    assert node["md5"] == f"{zlib.crc32(result.numpy().tobytes()):08x}"
    assert torch.equal(recorded.tensor(node["data_name"]), result)


def test_the_input_of_an_in_place_call_is_saved_as_it_was(bench: Any) -> None:
    debugger = bench.open("L1", "tensor", async_dump=True)
    debugger.start()
    value = torch.tensor([-1.0, 1.0])
    F.relu(value, inplace=True)
    debugger.stop()
    recorded = bench.read()
    assert recorded.tensor("Functional.relu.0.forward.input.0.pt").tolist() == [-1.0, 1.0]
    assert recorded.tensor("Functional.relu.0.forward.output.0.pt").tolist() == [0.0, 1.0]


def test_a_queue_smaller_than_every_tensor_loses_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(async_worker.LIMIT_VARIABLE, "1")
    debugger = bench.open("L1", "tensor", async_dump=True)
    debugger.start()
    for _ in range(50):
        F.gelu(torch.ones(100))
    debugger.stop()
    assert len(bench.read().files()) == 100
    assert all(entry["output"][0]["data_name"] for entry in bench.read().data.values())


def test_a_folder_that_vanishes_is_told_and_training_goes_on(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open("L1", "tensor", async_dump=True)
    debugger.start()
    (tensors,) = bench.root.glob("step0/*/dump_tensor_data")
    tensors.rmdir()
    assert F.relu(torch.ones(2)).tolist() == [1.0, 1.0]
    debugger.stop()
    assert "cannot save tensors" in capsys.readouterr().out
    entry = bench.read().data["Functional.relu.0.forward"]
    assert "data_name" not in entry["output"][0]
    assert entry["output"][0]["Max"] == 1.0
