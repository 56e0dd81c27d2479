"""``AclGraphDumper`` over real CUDA graphs: what the stand-in of ``recorded_graphs`` cannot show."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.pytorch import PrecisionDebugger, acl_save  # noqa: E402
from tests.adapters.pytorch.captured_models import Graphs, Model, assert_same, document, dumper, eager, warmed_up  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture
def cuda() -> Iterator[Graphs]:
    torch.manual_seed(3)
    yield Graphs("cuda")
    forget()


def test_a_step_takes_one_copy_to_the_host(cuda: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model().to("cuda").eval()
    x, copies, counts = cuda.random(4, 8), [0], []
    original = torch.Tensor.cpu

    def counted(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        copies[0] += 1
        return original(self, *args, **kwargs)

    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        graph = cuda.capture(warmed_up(lambda: model(x), cuda))
        started.step(dump=False)
        monkeypatch.setattr(torch.Tensor, "cpu", counted)
        for _ in range(6):
            copies[0] = 0
            torch.cuda.set_sync_debug_mode("error")  # a replay itself waits for nothing
            graph.replay()
            torch.cuda.set_sync_debug_mode("default")
            started.step()
            counts.append(copies[0])
    assert min(counts) == 1, counts  # the thread that writes may fetch a part of a step before its end
    assert max(counts) <= 2, counts


def test_replays_on_another_stream(cuda: Graphs, tmp_path: Path) -> None:
    model = Model(256).to("cuda").eval()
    x, inputs = cuda.random(512, 256), [cuda.random(512, 256) for _ in range(20)]
    stream = torch.cuda.Stream()
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        graph = cuda.capture(warmed_up(lambda: model(x), cuda))
        started.step(dump=False)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for value in inputs:
                x.copy_(value)
                graph.replay()
            started.step()
        torch.cuda.synchronize()
        plain = eager(tmp_path / "eager", model, lambda: [model(value) for value in inputs], level="L0")
    assert_same(document(tmp_path / "graph", 1), plain, 1e-3)


def test_graphed_callables_of_torch(cuda: Graphs, tmp_path: Path) -> None:
    model = Model().to("cuda")
    original = copy.deepcopy(model)
    x, value = cuda.random(4, 8), cuda.random(4, 8)
    started = dumper(tmp_path / "graph", model, level="L0")
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    started.step(dump=False)
    graphed(value).sum().backward()
    started.step()
    recorded = document(tmp_path / "graph", 1)
    plain = eager(tmp_path / "eager", original, lambda: original(value).sum().backward(), level="L0")
    assert any(".backward." in name for name in recorded["data"])
    for run in (recorded, plain):
        run["data"] = {name: body for name, body in run["data"].items() if ".forward." in name}
    assert_same(recorded, plain, 1e-4)


def test_compiled_code_inside_a_graph(cuda: Graphs, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        pytest.skip("inductor needs a compiler")
    torch._dynamo.reset()
    model = Model().to("cuda").eval()
    x, value = cuda.random(4, 8), cuda.random(4, 8)
    with torch.no_grad():
        started = dumper(tmp_path / "graph", model, level="L0")
        compiled = torch.compile(model)
        graph = cuda.capture(warmed_up(lambda: compiled(x), cuda))
        started.step(dump=False)
        x.copy_(value)
        graph.replay()
        started.step()
        plain = eager(tmp_path / "eager", model, lambda: model(value), level="L0")
    torch._dynamo.reset()
    assert_same(document(tmp_path / "graph", 1), plain, 1e-4)


def test_acl_save_writes_at_each_replay(cuda: Graphs, tmp_path: Path) -> None:
    x = torch.zeros(2, device="cuda")
    graph = cuda.capture(warmed_up(lambda: acl_save(x * 2, str(tmp_path / "y.pt")), cuda))
    (tmp_path / "y.pt").unlink()  # that of the warm-up
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
    files = [torch.load(path, weights_only=True).tolist() for path in sorted(tmp_path.iterdir())]
    assert files == [[2.0, 2.0], [4.0, 4.0]]


def test_a_debugger_that_knows_no_graphs_does_not_end_the_capture(cuda: Graphs, tmp_path: Path) -> None:
    model = Model().to("cuda").eval()
    x, value, results = torch.empty(4, 8, device="cuda"), cuda.random(4, 8), [torch.empty(0)]

    def work() -> None:
        results[0] = model(x)

    with torch.no_grad():
        debugger = PrecisionDebugger(config_path={"dump_path": str(tmp_path), "level": "mix", "task": "tensor"})
        debugger.start(model)
        x = torch.empty(4, 8, device="cuda")  # memory that nobody has written is looked at again
        x[:2].copy_(value[:2])
        graph = cuda.capture(warmed_up(work, cuda))
        debugger.stop()
        debugger.step()
        x.copy_(value)
        graph.replay()
        torch.testing.assert_close(results[0], model(value))
    assert document(tmp_path, 0)["data"]
