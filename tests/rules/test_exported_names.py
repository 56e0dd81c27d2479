"""What a package says it exports exists, once, and the documented names stay."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.rules.tree import label, module_name, sources

ADAPTERS = ("msprobe.adapters", "msprobe.pytorch", "msprobe.mindspore")
PACKAGES = [path for path in sources() if path.name == "__init__.py" and not module_name(path).startswith(ADAPTERS)]
FACADE = {"PrecisionDebugger", "seed_all"}


def test_exported_names_exist_and_are_listed_once() -> None:
    faults = []
    for path in PACKAGES:
        module = importlib.import_module(module_name(path))
        names = list(getattr(module, "__all__", ()))
        faults += [f"{label(path)}: {name} is listed twice" for name in set(names) if names.count(name) > 1]
        faults += [f"{label(path)}: {name} does not exist" for name in names if not hasattr(module, name)]
    assert faults == []


def test_msprobe_has_a_version() -> None:
    assert importlib.import_module("msprobe").__version__.split(".")[0].isdigit()


def test_compare_is_reached_from_msprobe_alone() -> None:
    program = "import msprobe; assert callable(msprobe.compare); assert callable(msprobe.compare.compare)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.torch
def test_pytorch_facade() -> None:
    facade = importlib.import_module("msprobe.pytorch")
    assert set(facade.__all__) >= FACADE
    assert [name for name in facade.__all__ if not hasattr(facade, name)] == []
