"""Back ends ``msprobe`` and ``msprobe_aten``: what they record is that of the eager model; faults have their line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from msprobe.adapters.pytorch.compile.recorded_graph import msprobe, msprobe_aten  # noqa: E402
from msprobe.jobs.compare import compare  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]
aten = torch.ops.aten
functional = torch.nn.functional
OPERATORS = {"statistics": {"list": ["Aten.", "Module."]}}


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        h = self.up(self.norm(x))
        h = functional.gelu(h)
        h = functional.silu(h) + torch.sigmoid(h)
        weights = torch.softmax(x @ x.transpose(-1, -2), -1)
        return self.down(h) + functional.leaky_relu(weights @ x, 0.1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.head = nn.Linear(8, 20)

    def forward(self, ids: Any) -> Any:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def record(
    folder: Path, backend: Any, config: Any = None, dtype: Any = None, lengths: tuple[int, ...] = (6, 6)
) -> Path:
    """Record the model, compiled with a back end or eager, one step for each length."""
    forget()
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model().to(dtype or torch.float32)
    called = model if backend is None else torch.compile(model, backend=backend, dynamic=len(set(lengths)) > 1)
    debugger = PrecisionDebugger({"level": "mix", "dump_path": str(folder), **(config or {})})
    for length in lengths:
        debugger.start(model)
        called(torch.arange(3 * length).reshape(3, length) % 20).backward()
        debugger.stop()
        debugger.step()
        model.zero_grad()
    forget()
    return folder


def names(folder: Path, step: int = 1) -> list[str]:
    (path,) = folder.glob(f"step{step}/*/dump.json")
    return list(json.loads(path.read_text())["data"])


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("eager") / "dump", None)


@pytest.fixture(scope="module")
def eager_operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("operators") / "dump", None, OPERATORS)


def test_records_are_those_of_the_eager_model(tmp_path: Path, eager: Path) -> None:
    compiled = record(tmp_path / "compiled", msprobe)
    assert names(compiled) == names(eager)
    result = compare(str(compiled), str(eager)).summary
    assert (result.verdict, result.incomplete) == ("same", [])


def test_lines_are_those_of_the_program(tmp_path: Path) -> None:
    compiled = record(tmp_path / "compiled", msprobe)
    (path,) = compiled.glob("step0/*/stack.json")
    stacks = {name: frames for group, frames in json.loads(path.read_text()).values() for name in group}
    frame = stacks["Functional.gelu.0.forward"][0]
    assert f"File {__file__}," in frame
    assert frame.endswith("in forward, \n h = functional.gelu(h)")
    assert stacks["Functional.gelu.1.forward"][1].endswith("\n x = block(x)")


@pytest.mark.matrix("wide")
def test_other_types_and_lengths(tmp_path: Path) -> None:
    for number, options in enumerate(({"dtype": torch.bfloat16}, {"lengths": (4, 6, 5)})):
        golden, target = tmp_path / f"golden{number}", tmp_path / f"target{number}"
        record(golden, None, **options)
        record(target, msprobe, **options)
        assert names(target) == names(golden)
        assert compare(str(target), str(golden)).summary.verdict == "same"


def test_operators_of_both_passes_are_the_same(tmp_path: Path, eager_operators: Path) -> None:
    compiled = record(tmp_path / "compiled", msprobe_aten, OPERATORS)
    assert {"Aten.gelu.0.forward", "Aten.gelu_backward.0.forward"} <= set(names(compiled))
    assert compare(str(compiled), str(eager_operators)).summary.verdict == "same"


def test_right_decompositions_are_no_alarm(tmp_path: Path, eager: Path) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        return msprobe_aten(graph, inputs, decompositions="inductor")

    compiled = record(tmp_path / "compiled", backend)
    assert compare(str(compiled), str(eager)).summary.verdict == "same"


def _norm(x: Any, weight: Any, bias: Any) -> Any:
    """Normalize with an epsilon that is far too large."""
    mean, spread = x.mean(-1, True), x.var(-1, keepdim=True, unbiased=False)
    scale = torch.rsqrt(spread + 0.1)
    return (x - mean) * scale * weight + bias, mean, scale


WRONG: dict[str, tuple[Any, Callable[..., Any]]] = {
    "gelu": (aten.gelu.default, lambda x, approximate="none": x * torch.sigmoid(1.6 * x)),
    "silu": (aten.silu.default, lambda x: x * torch.sigmoid(x) * 1.01),
    "sigmoid": (aten.sigmoid.default, lambda x: 1 / (1 + torch.exp(-1.02 * x))),
    "softmax": (aten._softmax.default, lambda x, dim, half: 1.01 * torch.exp(x) / torch.exp(x).sum(dim, True)),
    "leaky": (aten.leaky_relu.default, lambda x, slope=0.01: torch.where(x > 0, x, x * 0.01)),
    "norm": (aten.native_layer_norm.default, lambda x, shape, weight, bias, eps: _norm(x, weight, bias)),
}


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_decomposition_is_named_by_module_and_line(tmp_path: Path, name: str, eager: Path) -> None:
    operator, wrong = WRONG[name]

    def backend(graph: Any, inputs: Any) -> Any:
        return msprobe_aten(graph, inputs, decompositions={operator: wrong})

    compiled = record(tmp_path / "compiled", backend)
    summary = compare(str(compiled), str(eager)).summary
    assert summary.verdict == "diverged"
    assert summary.first_divergence is not None
    expected = "norm" if name == "norm" else "blocks.0"
    assert expected in f"{summary.first_divergence.name} {summary.first_divergence.module}"


@pytest.mark.matrix("wide")
def test_without_a_debugger_nothing_is_in_the_way() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model()
    ids = torch.arange(12).reshape(2, 6)
    for backend in (msprobe, msprobe_aten):
        assert torch.equal(torch.compile(model, backend=backend)(ids), model(ids))
