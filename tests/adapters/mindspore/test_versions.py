"""Which MindSpore we work with, and what a user sees without one."""

from __future__ import annotations

import re
import subprocess
import sys
from types import FunctionType
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn

from msprobe.adapters.mindspore.versions import (
    can_have_gradient,
    number,
    survive_first_conversion,
)
from msprobe.core.distribution import parsed, version_fault
from tests.adapters.bench import Bench
from tests.rules.tree import ROOT

ADAPTER = ROOT / "msprobe/adapters/mindspore"
ASKED = re.compile(r"__version__|(?:has|get)attr\((?:mindspore|_c_expression|api\(\)|_CORE),")

ABSENT = """
import importlib.util, sys
whole = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "mindspore" else whole(name, package)
try:
    from msprobe.mindspore import PrecisionDebugger
except ImportError as error:
    assert "2.4 to 2.10" in str(error) and "pip install" in str(error), error
else:
    raise SystemExit("no error")
"""
CHEAP = "import msprobe.mindspore, sys; assert not {'mindspore', 'numpy', 'torch'} & set(sys.modules)"


@pytest.mark.parametrize(("version", "good"), [("2.3.1", False), ("1.10.1", False), ("2.4.0", True), ("2.10.0", True)])
def test_versions_before_the_oldest_are_refused(version: str, good: bool) -> None:
    fault = version_fault("mindspore", version)
    assert (fault is None) == good
    assert good or (fault is not None and version in fault and "2.4 to 2.10" in fault)


def test_versions_are_numbers_not_text() -> None:
    assert parsed("2.10.0rc1") > parsed("2.9.1")


def test_under_numpy_1_nothing_is_thrown_away() -> None:
    assert survive_first_conversion("1.26.4") is False


@pytest.mark.parametrize("program", [ABSENT, CHEAP], ids=["absent", "cheap"])
def test_in_a_process_of_its_own(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_versions_differ_in_is_asked_in_one_place() -> None:
    files = [path for path in ADAPTER.rglob("*.py") if path.name != "versions.py"]
    found = [f"{path.name}: {line}" for path in files for line in path.read_text().splitlines() if ASKED.search(line)]
    assert len(files) > 30 and found == []


def test_hooks_are_plain_functions_as_older_versions_want(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    given, register = [], mindspore.Parameter.register_hook
    monkeypatch.setattr(
        mindspore.Parameter, "register_hook", lambda self, hook: given.append(hook) or register(self, hook)
    )
    net = nn.SequentialCell(nn.Dense(2, 2), nn.ReLU())
    with bench.open("mix").collect(net):
        mindspore.value_and_grad(net, None, net.trainable_params())(Tensor(np.ones((1, 2), np.float32)))
    assert given and all(type(hook) is FunctionType for hook in given)
    assert list(bench.read().data["Cell.0.Dense.parameters_grad.0"]) == ["bias", "weight"]


def test_whether_a_tensor_can_have_a_gradient_is_asked_of_mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    """mindtorch puts a constant of the same name over it."""
    known, inside = [], Tensor(np.ones(2, np.float32))

    def loss(x: Any) -> Any:
        monkeypatch.setattr(mindspore.Tensor, "_requires_grad", False, raising=False)
        known.extend([can_have_gradient(x.exp()), can_have_gradient(Tensor(1.0))])
        monkeypatch.undo()
        return x.sum()

    mindspore.grad(loss)(inside)
    assert known == ([True, False] if number() >= (2, 8) else [True, True])
