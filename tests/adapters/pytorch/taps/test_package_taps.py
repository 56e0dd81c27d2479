"""Prefixes NPU, MindSpeed and Triton, and level L2 on an NPU: with stand-ins for packages that do not run here.

A stand-in is a real package on the import path of a process of its own. It shows that calls are found, named and
recorded rightly; it cannot show that the real package behaves like it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from msprobe.adapters.pytorch.taps.operator_tap import TorchOperatorTap
from msprobe.adapters.pytorch.taps.package_taps import TritonTap, VendorTap
from msprobe.adapters.pytorch.tensors.unwritten import TorchUnwrittenMemory
from msprobe.core.capture.observer import CallSite, CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from tests import forked

pytestmark = pytest.mark.torch

STAND_INS = Path(__file__).parents[1] / "packages"
LAYOUT = {
    "torch_npu": ("torch_npu/__init__.py",),
    "mindspeed": ("mindspeed/ops/gmm.py",),
    "triton": ("triton/runtime/jit.py", "triton/runtime/autotuner.py"),
}
COLLECT = """
import json, pathlib, sys
import torch
from msprobe.pytorch import PrecisionDebugger
{imports}

config = json.loads(sys.argv[1])
debugger = PrecisionDebugger(config)
debugger.start()
{body}
debugger.stop()
debugger.step()
"""


class Site:
    """A folder of stand-ins, and a way to run a program with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dump = folder / "dump"

    def put(self, name: str) -> None:
        for file in LAYOUT[name]:
            path = self.folder / "site" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            for parent in path.relative_to(self.folder / "site").parents:
                (self.folder / "site" / parent / "__init__.py").touch()
            shutil.copy(STAND_INS / f"{name}.py.txt", path)

    def run(self, imports: str, body: str, **config: Any) -> str:
        """Collect ``body`` in a new process; what it printed."""
        script = self.folder / "program.py"
        script.write_text(COLLECT.format(imports=textwrap.dedent(imports), body=textwrap.dedent(body)))
        asked = {"level": "L1", "dump_path": str(self.dump), **config}
        path = os.pathsep.join([str(self.folder / "site"), *(part for part in sys.path if part)])
        environment = {**os.environ, "PYTHONPATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        done = forked.run([script, json.dumps(asked)], env=environment)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout.decode()

    def document(self) -> dict[str, Any]:
        (path,) = self.dump.glob("step0/proc*/dump.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def entries(self) -> dict[str, Any]:
        data: dict[str, Any] = self.document()["data"]
        return data


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_npu_functions(site: Site) -> None:
    site.put("torch_npu")
    body = """
    original = vars(torch_npu)["npu_unlisted"]
    x = torch.ones(2, 4, requires_grad=True)
    torch_npu.npu_unlisted(torch_npu.npu_swiglu(x)).sum().backward()
    torch_npu.npu_swiglu(x)
    torch_npu.atb.npu_ring_mla(torch.ones(1))
    assert torch_npu.npu_unlisted is original
    """
    site.run("import torch_npu", body, statistics={"list": ["NPU."]})
    assert list(site.entries()) == [
        "NPU.npu_swiglu.0.forward",
        "NPU.npu_swiglu.0.backward",
        "NPU.npu_swiglu.1.forward",
        "NPU.npu_ring_mla.0.forward",
    ]


def test_the_random_state_of_an_attention_is_no_output(site: Site) -> None:
    site.put("torch_npu")
    body = """
    q = torch.ones(1, 2, 4, requires_grad=True)
    result = torch_npu.npu_fusion_attention(q, q, q, 1)
    assert result[4:6] == (1234, 5678)
    result[0].sum().backward()
    """
    site.run("import torch_npu", body, statistics={"list": ["NPU."]})
    output = site.entries()["NPU.npu_fusion_attention.0.forward"]["output"]
    assert [item is None for item in output] == [False, False, False, False, True, True, False]
    assert "NPU.npu_fusion_attention.0.backward" in site.entries()


def test_mindspeed_functions_wherever_their_module_was_imported(site: Site) -> None:
    site.put("mindspeed")
    body = "mindspeed.ops.gmm.npu_gmm(torch.ones(2, 3), torch.ones(3, 2))"
    site.run("import mindspeed.ops.gmm", body)
    assert list(site.entries()) == ["MindSpeed.npu_gmm.0.forward"]


def test_a_package_imported_after_the_debugger_was_made(site: Site) -> None:
    site.put("mindspeed")
    body = """
    debugger.stop()
    import mindspeed.ops.gmm as gmm
    debugger.start()
    gmm.npu_gmm(torch.ones(2, 3), torch.ones(3, 2))
    """
    site.run("", body)
    assert list(site.entries()) == ["MindSpeed.npu_gmm.0.forward"]


def test_no_package_is_imported_by_the_tool(site: Site) -> None:
    for name in LAYOUT:
        site.put(name)
    out = site.run(
        "",
        'torch.relu(torch.ones(1)); print("IMPORTED", sorted(set(sys.modules) & set(config["names"])))',
        names=[*LAYOUT],
    )
    assert "IMPORTED []" in out


KERNELS = """
from triton.runtime.jit import JITFunction
from triton.runtime.autotuner import Autotuner

def add_kernel(x, y, out, BLOCK):
    out += x + y

def scale_kernel(x, factor):
    x *= factor
"""


def test_triton_kernels_show_their_arguments_after_the_launch(site: Site) -> None:
    site.put("triton")
    body = """
    kernel = JITFunction(add_kernel)
    out = torch.zeros(3)
    kernel[(1,)](torch.ones(3), torch.ones(3), out, BLOCK=8)
    kernel.run(out, out, out, 8, grid=(1,), warmup=True)
    kernel[(1,)](torch.ones(3), torch.ones(3), out, BLOCK=8)
    """
    site.run(KERNELS, body)
    entries = site.entries()
    assert list(entries) == ["Triton.add_kernel.0.forward", "Triton.add_kernel.1.forward"]
    call = entries["Triton.add_kernel.0.forward"]
    assert [part["Max"] for part in call["input_args"]] == [1.0, 1.0, 0.0]
    assert call["input_kwargs"] == {"BLOCK": {"type": "int", "value": 8}}
    assert [part["Max"] for part in call["output"][:3]] == [1.0, 1.0, 2.0]
    assert call["output"][3] == {"type": "int", "value": 8}


def test_autotuning_is_one_launch(site: Site) -> None:
    site.put("triton")
    site.run(KERNELS, "Autotuner(JITFunction(scale_kernel))[(1,)](torch.ones(2), 2)")
    assert list(site.entries()) == ["Triton.scale_kernel.0.forward"]
    assert site.entries()["Triton.scale_kernel.0.forward"]["output"][0]["Max"] == 8.0


def test_a_real_triton_kernel_in_its_interpreter(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    kernel = """
    import triton
    import triton.language as tl

    @triton.jit
    def double_kernel(x, out, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
    """
    site.run(kernel, "double_kernel[(1,)](torch.ones(5), torch.zeros(5), 5, BLOCK=8)")
    assert list(site.entries()) == ["Triton.double_kernel.0.forward"]
    assert site.entries()["Triton.double_kernel.0.forward"]["output"][1]["Max"] == 2.0


WINDOW = [
    "synchronize",
    "init_dump",
    "set_dump",
    "CONFIG",
    "synchronize",
    "RUN",
    "synchronize",
    "finalize_dump",
    "synchronize",
]
TRACED = """
import torch_npu

class Traced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch_npu.asked.append("RUN forward")
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        torch_npu.asked.append("RUN backward")
        return gradient * 2

torch.traced = lambda x: Traced.apply(x)
"""
TRACED_BODY = """
debugger.register_custom_api(torch, "traced", "Torch")
debugger.stop()
debugger.start()
x = torch.ones(3, requires_grad=True)
for _ in range(3):
    x = torch.traced(x)
x.sum().backward()
print("ASKED", json.dumps(torch_npu.asked))
"""


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_level_l2_asks_the_npu_around_exactly_the_chosen_call(site: Site, phase: str) -> None:
    site.put("torch_npu")
    target = f"Torch.traced.1.{phase}"
    out = site.run(TRACED, TRACED_BODY, level="L2", task="tensor", tensor={"list": [target]})
    (line,) = [line for line in out.splitlines() if line.startswith("ASKED")]
    asked = json.loads(line.removeprefix("ASKED "))
    (config,) = [item for item in asked if isinstance(item, dict)]
    (path,) = site.dump.glob("step0/kernel_config_*.json")
    assert config == json.loads(path.read_text())
    assert config["dump"]["dump_path"] == str((site.dump / "step0").resolve())
    flat = ["CONFIG" if isinstance(item, dict) else item for item in asked]
    begin = flat.index("init_dump") - 1
    expected = [item if item != "RUN" else f"RUN {phase}" for item in WINDOW]
    assert flat[begin : begin + len(expected)] == expected
    assert (
        len(flat) == len(expected) + 5
    )  # each call ran three times in each direction: once inside, five times outside
    before = sum(item.startswith("RUN") for item in flat[:begin])
    assert before == (1 if phase == "forward" else 4)


def test_level_l2_on_an_npu_records_the_chosen_call_alone(site: Site) -> None:
    site.put("torch_npu")
    site.run(TRACED, TRACED_BODY, level="L2", task="tensor", tensor={"list": ["Torch.traced.1.forward"]})
    assert site.document()["kernel_source"] == "npu"
    assert list(site.entries()) == ["Torch.traced.1.forward"]


class MetMeanwhile(CallSite):
    """Another thread calls something new while the numbers of this one are set back."""

    __slots__ = ("sites",)

    def reset(self) -> None:
        self.sites["new"] = CallSite("Aten", "new")


def test_a_thread_meets_new_functions_while_a_step_begins() -> None:
    current, thread = CurrentObserver(), ThreadState()
    triton = TritonTap({}, lambda name: True, current, thread)
    operators = TorchOperatorTap(current, thread, TorchUnwrittenMemory())
    for tap, sites in (triton, triton._sites), (operators, operators._named):
        sites["old"] = old = MetMeanwhile("Aten", "old")
        old.sites = sites
        tap.reset()
        assert list(sites) == ["old", "new"]


def test_a_package_that_another_thread_imports_is_recorded_from_the_next_start_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("half")
    module.__spec__ = spec = ModuleSpec("half", None)
    monkeypatch.setitem(sys.modules, "half", module)
    table = {"Half": {"module": "half", "apis": ["early", "late"], "hidden": {}}}
    tap = VendorTap(table, lambda name: True, CurrentObserver(), ThreadState())  # type: ignore[arg-type]
    vars(module)["early"] = early = lambda: None
    spec._initializing = True  # type: ignore[attr-defined]
    with tap.attach():
        assert vars(module)["early"] is early
    vars(module)["late"] = late = lambda: None
    spec._initializing = False  # type: ignore[attr-defined]
    with tap.attach():
        assert vars(module)["early"] is not early
        assert vars(module)["late"] is not late
