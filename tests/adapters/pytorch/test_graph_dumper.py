"""AclGraphDumper over captured graphs: CUDA graphs where there is a GPU, and the recording stand-in on the CPU.

The same tests run on both. On a machine with a GPU, torch, pytest and the packages that msprobe needs are enough:

    python -m pytest --noconftest -c /dev/null -p no:cacheprovider tests/adapters/pytorch/test_graph_dumper.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.adapters.pytorch import graph_dumper
from msprobe.adapters.pytorch.kernel.graph_events import tap_of
from msprobe.adapters.pytorch.tensors import operation_modes
from msprobe.adapters.pytorch.tensors.captured_values import CapturedTensorOps
from tests.adapters.pytorch.captured_models import (
    Graphs,
    Model,
    assert_same,
    document,
    dumper,
    eager,
    leaves,
    warmed_up,
)
from tests.adapters.pytorch.recorded_graphs import RecordedGraph, is_capturing, modes_of_compiler
from tests.fresh_debugger import forget

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def graphs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graphs]:
    if request.param == "cpu":
        monkeypatch.setattr(graph_dumper, "graph_tap", lambda: tap_of((RecordedGraph,)))
        monkeypatch.setattr(operation_modes, "_of_compiler", modes_of_compiler)
        monkeypatch.setattr(CapturedTensorOps, "capturing", is_capturing)
    torch.manual_seed(3)
    yield Graphs(request.param)
    forget()


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize(
    ("level", "dtype"), [("L0", torch.float32), ("L1", torch.float32), ("mix", torch.float32), ("mix", torch.bfloat16)]
)
def test_each_replay_is_a_step_like_an_eager_one(
    graphs: Graphs, tmp_path: Path, level: str, dtype: torch.dtype
) -> None:
    model = Model().to(graphs.device, dtype).eval()
    x, inputs = graphs.random(4, 8, dtype=dtype), [graphs.random(4, 8, dtype=dtype) for _ in range(3)]
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level=level)
        graph = graphs.capture(warmed_up(lambda: model(x), graphs))
        started.step(dump=False)
        for value in inputs:
            x.copy_(value)
            graph.replay()
            started.step()
        tolerance = 1e-5 if dtype is torch.float32 else 0.02
        for number, value in enumerate(inputs, 1):
            plain = eager(tmp_path / f"eager{number}", model, lambda value=value: model(value), level=level)
            recorded = document(tmp_path / "graph", number)
            if level == "L0":
                assert recorded["kernel_source"] == "captured-graph"
            recorded["data"] = {key: body for key, body in recorded["data"].items() if ".copy_." not in key}
            assert_same(recorded, plain, tolerance)
            if level != "L1":
                assert (
                    document(tmp_path / "graph", number, "construct.json").items()
                    >= document(tmp_path / f"eager{number}", 0, "construct.json").items()
                )


def test_graphs_of_several_sizes_share_a_pool(graphs: Graphs, tmp_path: Path) -> None:
    model = Model().to(graphs.device).eval()
    sizes, places, captured = (8, 4, 2), {}, {}
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        for size in sizes:
            places[size] = x = graphs.random(size, 8)
            captured[size] = graphs.capture(warmed_up(lambda x=x: model(x), graphs))
        started.step(dump=False)
        order = (2, 8, 4, 8, 2)
        inputs = [graphs.random(size, 8) for size in order]
        for size, value in zip(order, inputs, strict=True):
            for other in places.values():
                other.fill_(float("nan"))
            places[size].copy_(value)
            captured[size].replay()
            started.step()
        for number, value in enumerate(inputs, 1):
            plain = eager(tmp_path / f"eager{number}", model, lambda value=value: model(value), level="L0")
            assert_same(document(tmp_path / "graph", number), plain)


def test_a_graph_is_replayed_several_times_in_a_step(graphs: Graphs, tmp_path: Path) -> None:
    model = Model().to(graphs.device).eval()
    x, inputs = graphs.random(4, 8), [graphs.random(4, 8) for _ in range(3)]
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        graph = graphs.capture(warmed_up(lambda: model(x), graphs))
        started.step(dump=False)
        for value in inputs[:2]:
            x.copy_(value)
            graph.replay()
        model(inputs[2])
        started.step()
        plain = eager(tmp_path / "eager", model, lambda: [model(value) for value in inputs], level="L0")
    recorded = document(tmp_path / "graph", 1)
    assert recorded["kernel_source"] == "captured-graph+eager-code"
    assert_same(recorded, plain)


def test_pieces_of_a_model_are_captured(graphs: Graphs, tmp_path: Path) -> None:
    """As servers do it: what lies between two graphs, often the attention, runs eagerly."""
    model = Model().to(graphs.device).eval()
    first, second = model.blocks[0], model.blocks[1]
    places = [graphs.random(4, 8) for _ in range(2)]
    results: list[torch.Tensor] = [torch.empty(0), torch.empty(0)]
    value = graphs.random(4, 8)

    def piece(number: int, part: nn.Module) -> None:
        results[number] = part(places[number])

    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="mix")
        pieces = [
            graphs.capture(warmed_up(lambda number=number, part=part: piece(number, part), graphs))
            for number, part in enumerate((first.linear, second))
        ]
        started.step(dump=False)
        places[0].copy_(value)
        pieces[0].replay()
        places[1].copy_(torch.relu(first.norm(results[0])) + value)
        pieces[1].replay()
        model.head(results[1])
        started.step()
        plain = eager(tmp_path / "eager", model, lambda: _in_pieces(model, value), level="mix")
    recorded = document(tmp_path / "graph", 1)
    recorded["data"] = {key: body for key, body in recorded["data"].items() if ".copy_." not in key}
    assert_same(recorded, plain)


def _in_pieces(model: Any, value: torch.Tensor) -> None:
    first, second = model.blocks
    model.head(second(torch.relu(first.norm(first.linear(value))) + value))


def test_tensors_are_saved_by_list_and_slice(graphs: Graphs, tmp_path: Path) -> None:
    model = Model().to(graphs.device).eval()
    x, value = graphs.random(4, 8), graphs.random(4, 8)
    chosen: dict[str, Any] = {"list": ["Module.blocks.1.norm"], "slice": [{"dim": 0, "begin": 1, "end": 3}]}
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0", task="tensor", tensor=chosen)
        graph = graphs.capture(warmed_up(lambda: model(x), graphs))
        started.step(dump=False)
        for part in (value, -value):  # the second replay must not reach the files of the first
            x.copy_(part)
            graph.replay()
        started.step()
        plain = eager(
            tmp_path / "eager", model, lambda: (model(value), model(-value)), level="L0", task="tensor", tensor=chosen
        )
    recorded = document(tmp_path / "graph", 1)
    assert list(recorded["data"]) == [f"Module.blocks.1.norm.LayerNorm.forward.{number}" for number in range(2)]
    assert_same(recorded, plain)
    for place, node in leaves(recorded["data"]):
        file = Path(recorded["dump_data_dir"]) / node["data_name"]
        other = Path(plain["dump_data_dir"]) / dict(leaves(plain["data"]))[place]["data_name"]
        assert file.name == other.name
        torch.testing.assert_close(torch.load(file, weights_only=True), torch.load(other, weights_only=True))


def test_a_nan_inside_a_graph_is_seen_where_it_arises(graphs: Graphs, tmp_path: Path) -> None:
    model = Model().to(graphs.device).eval()
    x = graphs.random(4, 8)
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        graph = graphs.capture(warmed_up(lambda: model(x), graphs))
        started.step(dump=False)
        model.blocks[1].linear.weight[0, 0] = float("nan")
        graph.replay()
        started.step()
    data = document(tmp_path / "graph", 1)["data"]
    outputs = {name: body["output"][0]["Max"] for name, body in data.items()}
    broken = [name for name, value in outputs.items() if isinstance(value, str) or math.isnan(value)]
    assert broken[0] == "Module.blocks.1.linear.Linear.forward.0"
    assert "Module.blocks.0.Block.forward.0" not in broken


def test_a_training_step_inside_a_graph(graphs: Graphs, tmp_path: Path) -> None:
    model = Model().to(graphs.device)
    x, value = graphs.random(4, 8), graphs.random(4, 8)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def train(given: torch.Tensor) -> None:
        model(given).pow(2).sum().backward()

    started = dumper(tmp_path / "graph", model, level="L0")
    graph = graphs.capture(warmed_up(lambda: train(x), graphs))
    started.step(dump=False)
    with torch.no_grad():
        x.copy_(value)
    graph.replay()
    started.step()
    plain = eager(tmp_path / "eager", model, lambda: train(value), level="L0")
    recorded = document(tmp_path / "graph", 1)
    assert any(".backward." in name for name in recorded["data"])
    assert any(".parameters_grad." in name for name in recorded["data"])
    assert_same(recorded, plain, 1e-4)


def test_what_was_captured_or_skipped_is_not_recorded(
    graphs: Graphs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model().to(graphs.device).eval()
    x = graphs.random(4, 8)
    with torch.no_grad():
        early = graphs.capture(warmed_up(lambda: model(x), graphs))
        started = dumper(tmp_path / "graph", model, level="L0", step=[2])
        graphs.capture(lambda: model(x))  # and never replayed
        later = graphs.capture(lambda: model(x))
        started.step()
        early.replay()
        later.replay()
        started.step()
        with caplog.at_level("WARNING"):
            early.replay()
        later.replay()
        started.step()
    assert "captured before AclGraphDumper.start" in caplog.text
    assert sorted(path.name for path in (tmp_path / "graph").iterdir()) == ["step2"]
    assert "Module.head.Linear.forward.0" in document(tmp_path / "graph", 2)["data"]
    assert "Module.head.Linear.forward.1" not in document(tmp_path / "graph", 2)["data"]


def test_results_are_those_of_a_run_without_the_dumper(graphs: Graphs, tmp_path: Path) -> None:
    model = Model().to(graphs.device).eval()
    x, value = graphs.random(4, 8), graphs.random(4, 8)
    results: list[torch.Tensor] = []

    def work() -> None:
        results.append(model(x))

    with torch.no_grad():
        plain = graphs.capture(warmed_up(work, graphs))
        expected = results[-1]
        started = dumper(tmp_path / "graph", model, level="mix")
        model(x)  # what the device still computes of this step must not be waited for while a graph is captured
        graph = graphs.capture(work)
        started.step(dump=False)
        x.copy_(value)
        plain.replay()
        expected = expected.clone()
        graph.replay()
        assert torch.equal(results[-1], expected)
        started.step()
