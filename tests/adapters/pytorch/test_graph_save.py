"""acl_save: a file per call in eager mode, per run of compiled code, per replay of a captured graph."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.adapters.pytorch.graph_save import GraphSaver
from msprobe.adapters.pytorch.kernel.graph_events import tap_of
from msprobe.adapters.pytorch.tensors import operation_modes
from msprobe.pytorch import acl_save
from tests.adapters.pytorch import recorded_graphs
from tests.adapters.pytorch.recorded_graphs import RecordedGraph, capture, is_capturing, modes_of_compiler

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

BACKENDS = [
    "eager",
    "aot_eager",
    pytest.param("inductor", marks=pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")),
]


def read(path: Path) -> torch.Tensor:
    tensor: torch.Tensor = torch.load(path, weights_only=True)
    return tensor


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Saving(nn.Module):
    """A network that saves what stands between its layers."""

    def __init__(self, folder: Path, saves: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)
        self.folder, self.saves = str(folder), saves

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if self.saves:
            acl_save(h, f"{self.folder}/hidden.pt")
        result: torch.Tensor = self.second(torch.relu(h))
        return result


def test_every_call_has_a_file_of_its_own(tmp_path: Path) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert acl_save(x, str(tmp_path / "deep" / "x.pt")) is x
    acl_save(x.t()[1:], tmp_path / "deep" / "x")
    assert names(tmp_path / "deep") == ["x.pt", "x_1.pt"]
    assert torch.equal(read(tmp_path / "deep" / "x.pt"), x)
    assert torch.equal(read(tmp_path / "deep" / "x_1.pt"), x.t()[1:])
    assert (tmp_path / "deep" / "x.pt").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool, torch.complex64])
def test_values_keep_their_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.0, 1.0]).to(dtype)
    acl_save(x, str(tmp_path / "x.pt"))
    assert read(tmp_path / "x.pt").dtype is dtype
    assert torch.equal(read(tmp_path / "x.pt").view(torch.uint8), x.view(torch.uint8))


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_run_of_compiled_code_has_a_file(tmp_path: Path, backend: str) -> None:
    model, plain = Saving(tmp_path), Saving(tmp_path, saves=False)
    compiled = torch.compile(model, backend=backend, fullgraph=True)  # a graph break would raise
    inputs = [torch.randn(2, 4) for _ in range(3)]
    for x in inputs:
        compiled(x).sum().backward()
        plain(x).sum().backward()
    assert names(tmp_path) == ["hidden.pt", "hidden_1.pt", "hidden_2.pt"]
    for x, name in zip(inputs, names(tmp_path), strict=True):
        torch.testing.assert_close(read(tmp_path / name), plain.first(x).detach())
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_code_without_gradients(tmp_path: Path) -> None:
    compiled = torch.compile(Saving(tmp_path), backend="aot_eager", fullgraph=True)
    with torch.inference_mode():
        for length in (2, 5, 7):  # also with a length that the graph does not know
            compiled(torch.ones(length, 4))
    assert [len(read(tmp_path / name)) for name in names(tmp_path)] == [2, 5, 7]


def test_a_debugger_does_not_record_it(bench: Any, tmp_path: Path) -> None:
    debugger = bench.open("L1")
    debugger.start()
    acl_save(torch.relu(torch.ones(2)), str(tmp_path / "x.pt"))
    debugger.stop()
    debugger.step()
    assert bench.read().names() == ["Torch.relu.0.forward"]


@pytest.mark.parametrize(
    ("x", "path", "reason"),
    [
        (3.0, "x.pt", "x is a tensor"),
        (torch.ones(1), 7, "path is the name of a file"),
        (torch.ones(1), "", "path is the name of a file"),
        (torch.ones(1), "a\0b", "null (byte|character)"),
        (torch.ones(1, device="meta"), "x.pt", "no values"),
        (torch.ones(1), "file/x.pt", "[Nn]ot a directory|[Ff]ile exists"),
    ],
)
def test_what_cannot_be_saved_is_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    x: Any,
    path: Any,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with caplog.at_level("WARNING"):
        assert acl_save(x, path) is x
    (line,) = [record.getMessage() for record in caplog.records]
    assert "\n" not in line
    assert re.search(reason, line), line
    assert names(tmp_path) == ["file"]


@pytest.fixture
def saver(monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphSaver]:
    """A saver that listens to the graphs of the CPU that capture and replay."""
    monkeypatch.setattr(operation_modes, "_of_compiler", modes_of_compiler)
    made = GraphSaver(lambda: tap_of((RecordedGraph,)), is_capturing)
    yield made
    made._listening.close()
    assert RecordedGraph.replay.__module__ == recorded_graphs.__name__


def test_a_captured_graph_writes_at_each_replay(tmp_path: Path, saver: GraphSaver) -> None:
    x, graph, other = torch.zeros(2), RecordedGraph(), RecordedGraph()
    with capture(other):
        saver.save(x - 1, str(tmp_path / "other.pt"))
    with capture(graph):
        y = x * 2
        saver.save(y, str(tmp_path / "y.pt"))
        y.add_(1)  # what is written afterwards is not in the file
    assert not list(tmp_path.iterdir())  # while it captures nothing has a value
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
    assert [read(tmp_path / name).tolist() for name in names(tmp_path)] == [[2.0, 2.0], [4.0, 4.0]]
    assert y.tolist() == [5.0, 5.0]
    other.replay()
    assert read(tmp_path / "other.pt").tolist() == [1.0, 1.0]
    saver.save(x, str(tmp_path / "x.pt"))
    assert read(tmp_path / "x.pt").tolist() == [2.0, 2.0]


def test_a_capture_that_fails_leaves_no_files(tmp_path: Path, saver: GraphSaver) -> None:
    graph = RecordedGraph()
    with pytest.raises(RuntimeError, match="waits for a value"), capture(graph):
        saver.save(torch.ones(1), str(tmp_path / "x.pt"))
        torch.ones(1).item()
    with capture(graph):  # captured once more, without acl_save
        torch.ones(1) + 1
    graph.replay()
    assert names(tmp_path) == []


def test_a_replay_that_cannot_write_goes_on(
    tmp_path: Path, saver: GraphSaver, caplog: pytest.LogCaptureFixture
) -> None:
    graph = RecordedGraph()
    (tmp_path / "file").write_text("")
    with capture(graph):
        saver.save(torch.ones(1), str(tmp_path / "file" / "x.pt"))
    graph.replay()
    assert "nothing is saved, the program goes on" in caplog.text


def test_ranks_do_not_overwrite_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    acl_save(torch.ones(1), str(tmp_path / "x.pt"))
    acl_save(torch.ones(1), str(tmp_path / "rank1.pt"))
    assert names(tmp_path) == ["rank1.pt", "x_rank1.pt"]
