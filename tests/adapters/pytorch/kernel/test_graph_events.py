"""Captures and replays of graphs are told to everybody who listens, and nothing stays replaced."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.kernel import graph_events
from msprobe.adapters.pytorch.kernel.graph_events import graph_tap, tap_of
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from tests.adapters.pytorch.recorded_graphs import RecordedGraph, capture

pytestmark = pytest.mark.torch


def listener(heard: list[Any]) -> Any:
    return SimpleNamespace(
        before_capture=lambda: heard.append("before"),
        begin=lambda graph: heard.append(graph),
        end=lambda: heard.append("end"),
        captured=lambda graph, complete: heard.append((graph, complete)),
        replayed=lambda graph: heard.append("replayed"),
    )


def test_every_listener_hears_until_it_leaves() -> None:
    first: list[Any] = []
    second: list[Any] = []
    tap, graph, original = tap_of((RecordedGraph,)), RecordedGraph(), RecordedGraph.replay
    with tap.attach(listener(first)):
        with tap.attach(listener(second)), capture(graph):
            torch.ones(1)
        graph.replay()
    assert RecordedGraph.replay is original
    graph.replay()
    assert second == ["before", graph, "end", (graph, True)]
    assert first == [*second, "replayed"]


def test_a_capture_that_cannot_end_is_told_as_incomplete() -> None:
    class Failing(RecordedGraph):
        def capture_begin(self, pool: Any = None) -> None:
            pass

        def capture_end(self) -> None:
            raise RuntimeError("the capture was ended by an error")

        def replay(self) -> None:
            pass

    heard: list[Any] = []
    graph = Failing()
    with tap_of((Failing,)).attach(listener(heard)), pytest.raises(RuntimeError, match="ended by an error"):
        graph.capture_begin()
        graph.capture_end()
    assert heard == ["before", graph, "end", (graph, False)]


def test_the_graphs_of_cuda_and_of_an_npu_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a stand-in of torch_npu; no NPU has run this."""

    class NPUGraph(RecordedGraph):
        pass

    module = ModuleType("torch_npu")
    module.__dict__["npu"] = SimpleNamespace(NPUGraph=NPUGraph)
    heard: list[Any] = []
    assert graph_tap() is tap_of((torch.cuda.CUDAGraph,))
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    graph = NPUGraph()
    with graph_tap().attach(listener(heard)):
        assert torch.cuda.CUDAGraph.replay is not vars(torch.cuda.CUDAGraph)["replay"].__wrapped__
        with capture(graph):
            torch.ones(1)
        graph.replay()
    assert heard == ["before", graph, "end", (graph, True), "replayed"]


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_debugger_fetches_its_numbers_before_a_capture(
    bench: Any, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """What a thread of the tool still waited for could end the capture."""
    heard: list[str] = []
    monkeypatch.setattr(graph_events, "graph_tap", lambda: tap_of((RecordedGraph,)))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(TorchTensorOps, "settle", lambda self: heard.append("settled"))
    original, debugger, model = RecordedGraph.replay, bench.open(level), torch.nn.Sequential(torch.nn.Linear(2, 2))
    debugger.start(model)
    heard.clear()
    graph = RecordedGraph()
    graph.capture_begin()
    assert heard == ["settled"]
    graph.capture_end()
    debugger.stop()
    assert RecordedGraph.replay is original
