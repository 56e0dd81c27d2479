"""Back ends ``msprobe`` and ``msprobe_aten`` with marked dimensions: one graph for all sizes, records as in eager mode;
and an eager run against a compiled one in which one wrong kernel makes many rows differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402

from msprobe.adapters.pytorch.compile.recorded_graph import msprobe_aten  # noqa: E402
from msprobe.jobs.compare import compare  # noqa: E402
from msprobe.pytorch import PrecisionDebugger  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SIZES = (3, 5, 8)


class Branches(nn.Module):
    """Layers side by side, whose sizes depend on the batch, and one after them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.up = nn.Linear(6, 6)
        self.acts = nn.ModuleList(nn.GELU() for _ in range(count))
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Any) -> Any:
        h = self.up(x)
        rows = torch.arange(x.shape[0]).view(-1, 1) / x.shape[0]
        parts = [act(h + number * 0.01) for number, act in enumerate(self.acts)]
        return self.norm(torch.cat(parts).view(len(parts), x.shape[0], -1).sum(0) * rows).reshape(-1)


def record(folder: Path, backend: Any, level: str = "mix", sizes: tuple[int, ...] = SIZES, count: int = 2) -> Path:
    """Record a step for each size of the batch, which is marked as dynamic."""
    forget()
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Branches(count)
    called = model if backend is None else torch.compile(model, backend=backend)
    debugger = PrecisionDebugger({"level": level, "dump_path": str(folder)})
    for size in sizes:
        data = torch.randn(size, 6, generator=torch.Generator().manual_seed(size))
        torch._dynamo.mark_dynamic(data, 0)
        debugger.start(model)
        called(data).square().sum().backward()
        debugger.stop()
        debugger.step()
        model.zero_grad()
    forget()
    return folder


@pytest.mark.parametrize(("backend", "level"), [("msprobe", "mix"), ("msprobe_aten", "L0")])
def test_one_graph_serves_all_sizes_with_the_names_of_eager_mode(tmp_path: Path, backend: str, level: str) -> None:
    counted = CompileCounterWithBackend(backend)
    compiled, eager = record(tmp_path / "compiled", counted, level), record(tmp_path / "eager", None, level)
    assert counted.frame_count == 1
    documents = [sorted(folder.glob("step*/*/dump.json")) for folder in (compiled, eager)]
    assert [len(each) for each in documents] == [len(SIZES)] * 2
    for one, other in zip(*documents, strict=True):
        names, golden = (json.loads(path.read_text())["data"] for path in (one, other))
        assert list(names) == list(golden) if backend == "msprobe" else set(names) == set(golden)
    summary = compare(str(compiled), str(eager)).summary
    assert (summary.verdict, summary.incomplete) == ("same", [])


@pytest.mark.matrix("wide")
def test_many_rows_of_an_eager_and_a_compiled_run_are_one_kernel(tmp_path: Path) -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        wrong = {torch.ops.aten.gelu.default: lambda x, approximate="none": x * torch.sigmoid(1.6 * x)}
        return msprobe_aten(graph, inputs, decompositions=wrong)

    compiled = record(tmp_path / "compiled", backend, "L0", sizes=(3,), count=20)
    eager = record(tmp_path / "eager", None, "L0", sizes=(3,), count=20)
    first, *others = compare(str(compiled), str(eager), group_by="operator").summary.operators
    assert (first.operator, first.phase) == ("Module.GELU", "forward")
    assert (first.errors, first.calls) == (20, 20)
    assert first.first == "Module.acts.0.GELU.forward.0 output.0"
    assert all(other.errors < first.errors for other in others)
