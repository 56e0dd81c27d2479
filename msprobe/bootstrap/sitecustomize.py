"""Runs at the start of every Python process below ``msprobe run``, because its folder is on PYTHONPATH.

It waits for the program to import torch, and only then loads anything. A program of MindSpore is told at its end that
nothing was collected. A ``sitecustomize`` that this one hides still runs.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

VARIABLE = "MSPROBE_RUN"
_HERE = os.path.dirname(os.path.abspath(__file__))


class TorchWatch:
    """A meta path finder that calls ``ready`` once torch is imported."""

    def __init__(self, ready: Any) -> None:
        self._ready = ready

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            self._ready()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _attach() -> None:
    if importlib.util.find_spec("msprobe") is None:
        sys.path.append(os.path.dirname(os.path.dirname(_HERE)))
    importlib.import_module("msprobe.adapters.pytorch.attach").attach(os.environ[VARIABLE])


def _tell_mindspore() -> None:
    if "mindspore" in sys.modules and not {"torch", "msprobe.mindspore"} & set(sys.modules):
        advice = "make a PrecisionDebugger of msprobe.mindspore in the script"
        sys.stderr.write(f"msprobe run: nothing was collected: it attaches to PyTorch only; {advice}\n")


def _run_the_hidden_one() -> None:
    elsewhere = [place for place in sys.path if os.path.abspath(place or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, TorchWatch(_attach))
        atexit.register(_tell_mindspore)
    _run_the_hidden_one()
