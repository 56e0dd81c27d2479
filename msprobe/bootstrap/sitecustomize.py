"""Runs at the start of every Python process below ``msprobe run``, because its folder is on PYTHONPATH.

It loads msprobe only when the program has imported torch. A program of MindSpore gets a message at its end that nothing
was collected. Another ``sitecustomize`` that this one hides is run as well.
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
_ATTACH = ("auto_attach", "monitor.auto_monitor")
_HERE = os.path.dirname(os.path.abspath(__file__))


class TorchImportHook:
    """A meta path finder that calls ``on_import`` once torch is imported."""

    def __init__(self, on_import: Any) -> None:
        self._on_import = on_import

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of torch with a loader that calls ``on_import`` at its end; None for other modules."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            self._on_import()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _attach() -> None:
    if importlib.util.find_spec("msprobe") is None:
        sys.path.append(os.path.dirname(os.path.dirname(_HERE)))
    for module in _ATTACH:
        importlib.import_module(f"msprobe.adapters.pytorch.{module}").attach(os.environ[VARIABLE])


def _warn_mindspore_program() -> None:
    if "mindspore" in sys.modules and not {"torch", "msprobe.mindspore"} & set(sys.modules):
        advice = "make a PrecisionDebugger of msprobe.mindspore in the script"
        sys.stderr.write(f"msprobe run: nothing was collected: it attaches to PyTorch only; {advice}\n")


def _run_hidden_sitecustomize() -> None:
    elsewhere = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, TorchImportHook(_attach))
        atexit.register(_warn_mindspore_program)
    _run_hidden_sitecustomize()
