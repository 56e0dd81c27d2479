"""What a graph measures: the same numbers as outside of one, at each replay, and nothing that makes the host wait."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from msprobe.adapters.pytorch.tensors import operation_modes, tensor_ops
from msprobe.adapters.pytorch.tensors.captured_values import CapturedTensorOps
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.adapters.pytorch.tensors.unwritten import TorchUnwrittenMemory
from msprobe.core.store.record_walk import NO_DATA
from tests.adapters.pytorch.recorded_graphs import RecordedGraph, capture, modes_of_compiler

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
NAMES = ("Max", "Min", "Mean", "Norm")


@pytest.fixture(autouse=True)
def _on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_modes, "_of_compiler", modes_of_compiler)


def values(dtype: torch.dtype) -> list[torch.Tensor]:
    floats = [torch.tensor([[1.0, -2.5, 3.0], [0.5, 7.0, -1.0]]), torch.tensor([[0.0, 9.0, 1.5], [2.0, -8.0, 4.0]])]
    return [value.to(dtype) for value in floats]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool]
)
@pytest.mark.parametrize("view", ["whole", "transposed", "scalar", "empty"])
def test_each_replay_has_the_numbers_of_its_input(dtype: torch.dtype, view: str) -> None:
    def seen(tensor: torch.Tensor) -> torch.Tensor:
        return {"whole": tensor, "transposed": tensor.t()[1:], "scalar": tensor[1, 2], "empty": tensor[:0]}[view]

    eager = TorchTensorOps()
    ops, graph, x = CapturedTensorOps(eager, "low", TorchUnwrittenMemory()), RecordedGraph(), values(dtype)[0].clone()
    with capture(graph):
        ops.begin()
        node = ops.describe(seen(x), True)
        captured = ops.end()
    assert [node[name] for name in NAMES] == [None] * 4
    copies: list[dict[str, Any]] = []
    for value in values(dtype):
        x.copy_(value)
        graph.replay()
        copies.append(dict(node))
        captured.arrive(lambda _: copies[-1])
    eager.settle()  # after both: the second replay has not reached the numbers of the first
    for value, copy in zip(values(dtype), copies, strict=True):
        expected = TorchTensorOps(native=False).describe(seen(value), True)
        assert list(copy) == list(expected)
        for name in NAMES:
            assert copy[name] == expected[name] or copy[name] == pytest.approx(expected[name], rel=1e-6)
            assert type(copy[name]) is type(expected[name])


def test_saved_values_are_those_of_the_call() -> None:
    ops, graph = CapturedTensorOps(TorchTensorOps(), "low", TorchUnwrittenMemory()), RecordedGraph()
    x = torch.zeros(3)
    with capture(graph):
        ops.begin()
        y = x + 1
        ops.keep(y, {}, "entry.output.0")
        y.mul_(10)
        captured = ops.end()
    x.fill_(2.0)
    graph.replay()
    ((_, save_as, kept),) = captured.copies
    assert (save_as, kept.tolist(), y.tolist()) == ("entry.output.0", [3.0] * 3, [30.0] * 3)


def test_parameters_are_left_to_the_recorded_steps() -> None:
    ops, graph = CapturedTensorOps(TorchTensorOps(), "low", TorchUnwrittenMemory()), RecordedGraph()
    parameter = nn.Parameter(torch.ones(4))
    with capture(graph), torch.no_grad():
        ops.begin()
        ops.describe(parameter, True)
        captured = ops.end()
    assert [tensor for _, tensor in captured.constants] == [parameter]
    assert not [step for step in graph.steps if "aminmax" in step[0].name()]
    with capture(graph):
        ops.begin()
        ops.describe(parameter, True)  # of a training, in which the graph may change it
        captured = ops.end()
    assert not captured.constants
    assert [step for step in graph.steps if "aminmax" in step[0].name()]


def test_a_sparse_tensor_has_no_numbers() -> None:
    ops, graph = CapturedTensorOps(TorchTensorOps(), "low", TorchUnwrittenMemory()), RecordedGraph()
    sparse = torch.eye(3).to_sparse()
    with capture(graph):
        ops.begin()
        node = ops.describe(sparse, True)
        ops.end()
    assert (node["layout"], node["Max"]) == ("sparse_coo", None)
    assert not graph.steps


def test_other_operations_read_nothing_during_a_capture(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    """A debugger that knows no graphs must not end the capture of the program."""
    monkeypatch.setattr(tensor_ops, "is_capturing", lambda tensor: True)
    monkeypatch.setattr(tensor_ops, "first_time", lambda key: True)
    ops, x = TorchTensorOps(native=False), torch.ones(2, 3).t()
    with caplog.at_level("WARNING"):
        node = ops.describe(x, True)
    assert node[NO_DATA]
    assert [node[name] for name in NAMES] == [None] * 4
    assert not ops.outstanding
    assert (ops.checksum(x, "crc32"), ops.snapshot(x), ops.save(x, tmp_path / "x.pt")) == (None, None, False)
    assert "use AclGraphDumper" in caplog.text
