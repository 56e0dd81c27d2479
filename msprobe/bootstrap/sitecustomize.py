"""Runs at the start of every Python process below ``msprobe run``, because its folder is on PYTHONPATH.

It loads msprobe only when the program has imported torch. What happened goes to the launcher as lines of JSON
(``note``). Another ``sitecustomize`` that this one hides is run as well.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

VARIABLE = "MSPROBE_RUN"
EVENTS = "MSPROBE_RUN_EVENTS"
_ATTACH = ("auto_attach", "monitor.auto_monitor")
_HERE = os.path.dirname(os.path.abspath(__file__))


def note(event: str, **facts: Any) -> None:
    """Append a line for the launcher; it has an end no later than the process."""
    line = json.dumps({"event": event, "process": os.getpid(), **facts}) + "\n"
    with contextlib.suppress(OSError), open(os.environ.get(EVENTS, os.devnull), "a", encoding="utf-8") as file:
        file.write(line)


class TorchImportWatch:
    """A meta path finder that finds nothing, and calls ``on_import`` once when torch has been imported.

    It is asked for the modules that torch itself imports, and then follows the end of that import. So a query for the
    spec of torch changes nothing, any finder and loader may serve torch, and nothing of torch shows it.
    """

    def __init__(self, on_import: Callable[[], None]) -> None:
        self._on_import: Callable[[], None] | None = on_import

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Look at how far the import of torch is."""
        torch = sys.modules.get("torch")
        spec = getattr(torch, "__spec__", None)
        if spec is None:
            return
        if not getattr(spec, "_initializing", False):
            self.finish()
        elif type(spec) is importlib.machinery.ModuleSpec:
            vars(spec)["finish"] = self.finish
            spec.__class__ = _FollowedSpec

    def finish(self) -> None:
        """Call ``on_import``, the first time where torch is there (its import may have failed)."""
        if "torch" not in sys.modules or self._on_import is None:
            return
        on_import, self._on_import = self._on_import, None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        on_import()


class _FollowedSpec(importlib.machinery.ModuleSpec):
    """A spec that says when the import system has ended the import: it then sets ``_initializing`` to False."""

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_initializing"))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value
        if not value:
            self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
            self.__dict__.pop("finish")()


def _attach() -> None:
    """Load what attaches to torch. Its failure must not be one of the program's import of torch."""
    note("torch")
    try:
        if importlib.util.find_spec("msprobe") is None:
            sys.path.append(os.path.dirname(os.path.dirname(_HERE)))
        for module in _ATTACH:
            importlib.import_module(f"msprobe.adapters.pytorch.{module}").attach(os.environ[VARIABLE], note)
    except Exception as error:  # noqa: BLE001 - whatever is missing here, the program goes on
        note("reason", text=f"msprobe cannot attach to torch in {sys.executable}: {type(error).__name__}: {error}")


def _note_end() -> None:
    loaded = {"torch", "mindspore", "msprobe.mindspore"} & set(sys.modules)
    note("end", loaded=sorted(loaded))


def _run_hidden_sitecustomize() -> None:
    elsewhere = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.environ.get(VARIABLE):
        note("start")
        sys.meta_path.insert(0, TorchImportWatch(_attach))
        atexit.register(_note_end)
    _run_hidden_sitecustomize()
