"""python_api.md shows every exported function and method with the signature it has."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch

TEXT = (ROOT / "docs" / "guide" / "python_api.md").read_text(encoding="utf-8")
SHOWN = dict(re.findall(r"^### `(\w+)(\(.*\))`$", TEXT, re.MULTILINE))
INSIDE = {"before_first_start", "check", "follow_data_loaders", "is_model", "make_backend", "make_session"}
"""Methods that a framework fills in."""
CALLBACKS = {
    "TransformersCallback": "_TransformersSteps",
    "LightningCallback": "_LightningSteps",
    "TrlCallback": "_TrlRollouts",
    "TransformersMonitor": "_TransformersMonitor",
    "LightningMonitor": "_LightningMonitor",
}


def signature(function: Callable[..., Any]) -> str:
    """Return the signature as the page writes it: without annotations, ``self`` and ``cls``."""
    own = inspect.signature(function)
    kept = [value.replace(annotation=inspect.Parameter.empty) for value in own.parameters.values()]
    if kept and kept[0].name in {"self", "cls"}:
        del kept[0]
    return str(own.replace(parameters=kept, return_annotation=inspect.Signature.empty))


def exported() -> dict[str, Callable[..., Any]]:
    """Return what a user can call, by the name on the page."""
    facade = importlib.import_module("msprobe.pytorch")
    found: dict[str, Callable[..., Any]] = {name: getattr(facade, name) for name in facade.__all__}
    debugger = found["PrecisionDebugger"]
    methods = {name: getattr(debugger, name) for name in set(dir(debugger)) - INSIDE if not name.startswith("_")}
    found |= {name: method for name, method in methods.items() if callable(method)}
    found["PrecisionDebugger"] = debugger.__new__
    found["compare"] = importlib.import_module("msprobe.jobs.compare").compare
    return found


def test_every_function_is_shown() -> None:
    assert set(SHOWN) == set(exported()) | set(importlib.import_module("msprobe.pytorch.integrations").__all__)
    assert set(CALLBACKS) == set(importlib.import_module("msprobe.pytorch.integrations").__all__)


@pytest.mark.parametrize("name", sorted(set(SHOWN) - set(CALLBACKS)))
def test_signature(name: str) -> None:
    assert SHOWN[name] == signature(exported()[name])


def test_every_option_of_compare_is_told() -> None:
    options = importlib.import_module("msprobe.jobs.compare_options").CompareOptions
    _, _, told = TEXT.partition("### `compare(")
    lines = [line for line in told.splitlines() if line.startswith("| `")]
    names = [name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(names) == sorted(options.__annotations__)


@pytest.mark.parametrize("name", sorted(CALLBACKS))
def test_signature_of_a_callback(name: str) -> None:
    """The part of the class without the trainer's: trainers take long to import and need not be installed."""
    steps = getattr(importlib.import_module("msprobe.adapters.pytorch.trainer_callbacks"), CALLBACKS[name])
    assert SHOWN[name] == signature(steps.__init__)
