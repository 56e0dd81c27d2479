"""Small models, the graphs that are captured of them, and the records of both."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.pytorch import AclGraphDumper, PrecisionDebugger
from tests.adapters.pytorch.recorded_graphs import RecordedGraph, capture
from tests.fresh_debugger import forget

NAMES = ("Max", "Min", "Mean", "Norm")


class Block(nn.Module):
    """Two layers with an activation that is no module."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x))) + x


class Model(nn.Module):
    """Blocks one inside the other, and a head."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.head(x)
        return result


class Graphs:
    """Captures graphs on one device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle() if device == "cuda" else None

    def capture(self, work: Callable[[], Any]) -> Any:
        """Return a graph of ``work``, which shares the pool of memory with the other graphs."""
        if self.device == "cpu":
            graph: Any = RecordedGraph()
            around: AbstractContextManager[Any] = capture(graph)
        else:
            graph = torch.cuda.CUDAGraph()
            around = torch.cuda.graph(graph, pool=self.pool)
        with around:
            work()
        return graph

    def random(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape).to(self.device, dtype)


def dumper(folder: Path, model: Any, **config: Any) -> AclGraphDumper:
    started = AclGraphDumper({"dump_path": str(folder), **config})
    started.start(model)
    return started


def warmed_up(work: Callable[[], Any], graphs: Graphs) -> Callable[[], Any]:
    """Run what is to be captured as servers do: libraries are set up then, on a stream of their own."""
    if graphs.device == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream().wait_stream(side)
    else:
        work()
    return work


def eager(folder: Path, model: nn.Module, work: Callable[[], Any], **config: Any) -> dict[str, Any]:
    """Return what an eager run of ``work`` records."""
    forget()
    debugger = PrecisionDebugger(config_path={"dump_path": str(folder), **config})
    debugger.start(model)
    work()
    debugger.stop()
    debugger.step()
    forget()
    return document(folder, 0)


def document(folder: Path, step: int, name: str = "dump.json") -> dict[str, Any]:
    (path,) = folder.glob(f"step{step}/*/{name}")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tensors below a node with their places."""
    if isinstance(node, dict) and "shape" in node:
        yield path, node
    elif isinstance(node, (dict, list)):
        parts = node.items() if isinstance(node, dict) else enumerate(node)
        for key, part in parts:
            yield from leaves(part, f"{path}.{key}")


def assert_same(graph: dict[str, Any], plain: dict[str, Any], tolerance: float = 1e-5) -> None:
    """Check that two dumps have the same calls in the same order, and the same values of each."""
    assert list(graph["data"]) == list(plain["data"])
    mine, other = dict(leaves(graph["data"])), dict(leaves(plain["data"]))
    assert mine.keys() == other.keys()
    assert mine
    for place, node in mine.items():
        facts = {key: value for key, value in node.items() if key not in (*NAMES, "Projection", "data_name", "md5")}
        assert facts == {key: other[place][key] for key in facts}, place
        for name in NAMES:
            mine_value, other_value = node[name], other[place][name]
            if other_value is None or (isinstance(other_value, float) and math.isnan(other_value)):
                assert str(mine_value) == str(other_value), (place, name)
            else:
                assert mine_value == pytest.approx(other_value, rel=tolerance, abs=tolerance), (place, name)
