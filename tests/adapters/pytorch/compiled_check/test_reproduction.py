"""The script of a wrong node, run in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from msprobe.adapters.pytorch.compiled_check.backends import ChosenBackend  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.called_graphs import CalledGraph  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.checker import PrecisionChecker  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.reproduction import write_reproduction  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.tensor_diff import compare_tensors  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.wrong_node import WrongNode  # noqa: E402
from msprobe.adapters.pytorch.replay.program_state import ProgramState  # noqa: E402
from tests.adapters.pytorch.compiled_check import planted_kernels as planted  # noqa: E402
from tests.adapters.pytorch.compiled_check.wrong_backends import changed  # noqa: E402
from tests.forked import run  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]
BACKEND = """
import runpy, torch
from tests.adapters.pytorch.compiled_check.wrong_backends import changed
torch._dynamo.register_backend(changed("gelu.default", lambda value: value * {factor}, "both"), "wrong_gelu")
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def written(path: Path, backend: Any, call: Any = planted.gelu) -> Any:
    """Check a model with a back end, report it, and return the result."""
    checker = PrecisionChecker()
    model = planted.Model(call)
    model.blocks[1] = torch.compile(model.blocks[1], backend=backend)
    model = checker.install(model)
    model(torch.randn(3, 5, 8)).square().mean().backward()
    result = checker.collect()
    checker.report(result, csv_path=str(path.with_suffix(".csv")), reproduce=str(path))
    return result


def test_the_script_shows_the_fault_and_its_absence(tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "repro.py"
    name = "wrong_gelu"
    torch._dynamo.register_backend(changed("gelu.default", lambda value: value * 1.01, "both"), name)
    try:
        result = written(path, name)
    finally:
        del torch._dynamo.backends.registry._COMPILER_FNS[name], torch._dynamo.backends.registry._BACKENDS[name]
    text = path.read_text()
    assert "node:   aten.gelu.default (forward) in blocks.1" in text
    assert f"source: {result.wrong_node.source}" in text
    assert "torch.ops.aten.gelu.default" in text
    found = run(["-c", BACKEND.format(factor=1.01, path=str(path))])
    assert (found.returncode, found.stderr) == (1, b"")
    assert b"from float64, eager mode is off by" in found.stdout
    assert found.stdout.endswith(b"The compiled form is WRONG, eager mode is right.\n")
    found = run(["-c", BACKEND.format(factor=1.0, path=str(path))])
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.endswith(b"The compiled form is right here.\n")


@pytest.mark.matrix("wide")
def test_the_script_of_a_wrong_kernel_of_inductor_needs_torch_alone(tmp_path: Path) -> None:
    path = tmp_path / "repro.py"
    with torch._inductor.config.patch("cpp.inject_relu_bug_TESTING_ONLY", "accuracy"):
        result = written(path, "inductor", planted.relu)
    assert result.wrong_node.operator == "aten.relu.default"
    assert "import msprobe" not in path.read_text()
    found = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert (found.returncode, found.stderr) == (1, "")
    assert "The compiled form is WRONG, eager mode is right." in found.stdout


def test_infinities_types_and_devices_of_a_graph_can_be_written(tmp_path: Path) -> None:
    def masked(x: Any) -> Any:
        made = torch.full((2, 3), float("-inf"), device=x.device, dtype=torch.float64)
        return torch.where(x > 0, made, x).to(torch.bfloat16)

    graph = make_fx(masked)(torch.ones(2, 3))
    called = CalledGraph(graph, [torch.randn(2, 3)], "forward", ProgramState.now())
    same = compare_tensors(*called.results(), *called.results())
    path = tmp_path / "repro.py"
    node = WrongNode("aten.where.self", "forward", "", (), called, same, ChosenBackend("aot_eager"))
    assert write_reproduction(node, path) == ""
    found = run([str(path)])
    assert (found.returncode, found.stderr) == (0, b"")


def test_a_back_end_without_a_name_gets_no_script(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "repro.py"
    result = written(path, changed("gelu.default", lambda value: value * 1.01, "both"))
    assert result.wrong_node is not None
    assert not path.exists()
    assert "the back end is a function of this program" in caplog.text
