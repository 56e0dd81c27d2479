"""Which framework a process works with, asked in processes that import them in different orders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.rules.tree import ROOT

pytestmark = pytest.mark.mindspore

LATE = """
import sys
from msprobe.mindspore import PrecisionDebugger
debugger = PrecisionDebugger({{"dump_path": {folder!r}, "level": "L1"}})
debugger.register_custom_api(sys.modules["mindspore"].mint, "square")
before = debugger.service.config.framework, "torch" in sys.modules
from tests.msadapter_stand_in import install
torch = install()
def step():
    debugger.start()
    sys.modules["mindspore"].mint.square(torch.exp(torch.tensor([1.0])))
    debugger.stop()
    debugger.step()
step()
for name in list(sys.modules):
    if name.split(".")[0] == "torch":
        del sys.modules[name]
step()
print(before, "torch" in sys.modules)
"""


def run(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip().splitlines()[-1]


def run_after_mindspore(program: str) -> str:
    """Run a program that begins with the import of MindSpore where that was imported."""
    result = forked.run(["-c", program], cwd=ROOT, preloaded=forked.MINDSPORE)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode().strip().splitlines()[-1]


@pytest.mark.matrix("wide")
def test_msadapter_imported_late_is_seen_at_the_next_start(tmp_path: Path) -> None:
    """And gone again when it is gone: the real torch is never looked for."""
    assert run(LATE.format(folder=str(tmp_path))) == "('mindspore', False) False"
    first, second = (
        json.loads(next((tmp_path / step).rglob("dump.json")).read_text("utf-8")) for step in ("step0", "step1")
    )
    assert first["framework"] == "mindtorch"
    assert list(first["data"]) == ["Torch.exp.0.forward", "mindspore.mint.square.0.forward"]
    assert second["framework"] == "mindspore"
    assert list(second["data"]) == ["mindspore.mint.square.0.forward"]


@pytest.mark.torch
def test_the_real_torch_beside_mindspore_is_no_msadapter() -> None:
    program = """
import mindspore, torch
from msprobe.adapters.msadapter.detection import torch_of_msadapter
from msprobe.pytorch import PrecisionDebugger as A
from msprobe.mindspore import PrecisionDebugger as B
print(torch_of_msadapter(), A.support.framework, B.support.framework)
"""
    assert run_after_mindspore(program) == "None pytorch mindspore"


def test_a_half_imported_torch_is_none() -> None:
    program = """
import sys, types
from msprobe.adapters.msadapter.detection import torch_of_msadapter as detect
found = [detect()]
import mindspore
found.append(detect())
sys.modules["torch"] = types.ModuleType("torch")
found.append(detect())
sys.modules["torch"].tensor = mindspore.Tensor
found.append(detect() is sys.modules["torch"])
print(found)
"""
    assert run(program) == "[None, None, None, True]"


@pytest.mark.parametrize("name", ["PrecisionDebugger", "seed_all"])
def test_without_torch_the_pytorch_face_says_what_to_install(name: str) -> None:
    program = f"""
import sys
sys.modules["torch"] = None
try:
    from msprobe.pytorch import {name}
except ImportError as error:
    print(error)
"""
    assert run(program).startswith("msprobe.pytorch needs PyTorch, which is not installed here: pip install")
