"""Functions inside code of ``torch.compile`` are recorded in graph mode, as those of an eager run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS
from msprobe.core import log
from msprobe.pytorch import AclGraphDumper, PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")
METHODS = ("Tensor.__add__.0.forward", "Tensor.sum.0.forward")
"""What Dynamo does not look up where it is replaced."""


class Net(nn.Module):
    """Results of several tensors, lists of tensors as arguments, a dtype, a call by keyword, one inside another."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear, self.norm = nn.Embedding(10, 8), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        y = F.scaled_dot_product_attention(self.linear(x)[None], x[None], x[None])[0]
        first, second = torch.split(self.norm(y + x), 4, dim=-1)
        weights = F.softmax(torch.cat([second, first], dim=-1), dim=-1, dtype=torch.float64)
        largest, _ = torch.max(F.normalize(weights), dim=1)
        return largest.sum()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    forget()
    torch._dynamo.reset()
    yield
    forget()


def data(folder: Path, step: int) -> Any:
    (document,) = folder.glob(f"step{step}/*/dump.json")
    return json.loads(document.read_text())


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("level", ["L1", "mix"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_functions_of_a_graph_are_those_of_an_eager_run(backend: str, level: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, ids = Net().eval(), torch.arange(6)
    config = {"task": "statistics", "level": level, "risk_level": "ALL"}
    with torch.no_grad():
        plain = model(ids)
        with PrecisionDebugger({**config, "dump_path": str(tmp_path / "eager")}).collect(model):
            model(ids)
        forget()
        dumper = AclGraphDumper({**config, "dump_path": str(tmp_path / "graph")})
        dumper.start(model)
        compiled = torch.compile(model, backend=backend)
        for _ in range(2):
            assert compiled(ids).item() == plain.item()
            dumper.step()
    wanted = data(tmp_path / "eager", 0)["data"]
    for step in range(2):
        found = data(tmp_path / "graph", step)
        assert "compiled-code" in found["kernel_source"]
        missing = set(wanted) - set(found["data"])
        assert missing == (set() if backend == "eager" else set(METHODS))
        assert set(found["data"]) <= set(wanted)
        for name, body in found["data"].items():
            assert body["output"] == wanted[name]["output"], name


@pytest.mark.parametrize(
    "backend",
    [
        "eager",
        "aot_eager",
        pytest.param("inductor", marks=[NEEDS_COMPILER, pytest.mark.slow, pytest.mark.matrix("wide")]),
    ],
)
def test_a_training_is_recorded_in_its_order_with_its_gradients(backend: str, tmp_path: Path) -> None:
    """Inductor moves what does not depend on each other, and multiplies matrices by functions of torch."""

    def loss(model: Any, x: torch.Tensor) -> torch.Tensor:
        h = torch.bmm(x, x) + model(x)
        largest, _ = torch.topk(h, 2, dim=-1)
        padded = F.gelu(F.pad(h, (0, 1)))
        return torch.add(torch.mean(padded), torch.sum(largest))

    torch.manual_seed(0)
    model, x = nn.Linear(4, 4), torch.rand(2, 4, 4, requires_grad=True)
    config = {"task": "statistics", "level": "L1", "risk_level": "ALL"}
    with PrecisionDebugger({**config, "dump_path": str(tmp_path / "eager")}).collect(model):
        loss(model, x).backward()
    forget()
    dumper = AclGraphDumper({**config, "dump_path": str(tmp_path / "graph")})
    dumper.start(model)
    torch.compile(loss, backend=backend)(model, x).backward()
    dumper.step()
    wanted, found = (data(tmp_path / name, 0)["data"] for name in ("eager", "graph"))
    names, expected = ([name for name in document if "Tensor." not in name] for document in (found, wanted))
    assert [name for name in names if ".forward" in name] == [name for name in expected if ".forward" in name]
    assert sorted(names) == sorted(expected)
    for name in expected:
        if ".backward" in name:
            assert norms(found[name]["output"]) == pytest.approx(norms(wanted[name]["output"])), name


def norms(value: Any) -> list[float]:
    if isinstance(value, list):
        return [norm for part in value for norm in norms(part)]
    return [value["Norm"]] if value else []


def test_code_that_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return F.relu(F.embedding(index, x))

    dumper = AclGraphDumper({"task": "statistics", "level": "L1", "dump_path": str(tmp_path)})
    dumper.start()
    compiled = torch.compile(broken, backend="aot_eager")
    with torch.no_grad():
        compiled(torch.ones(3, 2), torch.tensor([1]))
        with pytest.raises(IndexError):
            compiled(torch.ones(3, 2), torch.tensor([7]))
        dumper.step()
        F.gelu(torch.ones(2))
        compiled(torch.ones(3, 2), torch.tensor([1]))
        dumper.step()
    names = list(data(tmp_path, 1)["data"])
    assert names == ["Functional.gelu.0.forward", "Functional.embedding.0.forward", "Functional.relu.0.forward"]
    forget()
    assert CALLS.target is None and not CALLS.functions


def test_what_a_graph_does_not_show_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log._logged_keys.discard("functions in compiled code")
    for number in range(2):
        dumper = AclGraphDumper({"task": "statistics", "level": "L1", "dump_path": f"{tmp_path}/{number}"})
        dumper.start(Net())
        forget()
    assert capsys.readouterr().out.count("methods and operators of tensors (x.sum(), x + y) are not") == 1
