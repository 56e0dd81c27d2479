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
import opcode
import os
import sys
from _thread import get_ident
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType
from typing import Any

VARIABLE = "MSPROBE_RUN"
EVENTS = "MSPROBE_RUN_EVENTS"
_ATTACH = ("auto_attach", "monitor.auto_monitor")
_LazyModule: Any = getattr(importlib.util, "_LazyModule", ())
_HERE = os.path.dirname(os.path.abspath(__file__))


def note(event: str, **facts: Any) -> None:
    """Append a line for the launcher; it has an end no later than the process."""
    line = json.dumps({"event": event, "process": os.getpid(), **facts}) + "\n"
    with contextlib.suppress(OSError), open(os.environ.get(EVENTS, os.devnull), "a", encoding="utf-8") as file:
        file.write(line)


class TorchImportWatch:
    """A meta path finder that finds nothing, and calls ``on_import`` once when torch has been imported.

    It is asked for the modules that torch itself imports, and then follows the end of that import. So a query for the
    spec of torch changes nothing, any finder and loader may serve torch, and nothing of torch shows it. A program may
    also run the code of torch without the import system, which then says nothing of the end: that code is traced as
    a debugger would.
    """

    def __init__(self, on_import: Callable[[], None]) -> None:
        self._on_import: Callable[[], None] | None = on_import

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Look at how far the import of torch is."""
        torch = sys.modules.get("torch")
        spec = None if torch is None else _namespace(torch).get("__spec__")
        if torch is None or spec is None:
            return
        if getattr(spec, "_initializing", False):
            if type(spec) is importlib.machinery.ModuleSpec:
                vars(spec)["finish"] = self.finish
                spec.__class__ = _FollowedSpec
        elif not (frames := _running_code(torch)):
            self.finish()
        elif get_ident() in frames and sys.gettrace() is None:
            self._trace(frames[get_ident()])

    def _trace(self, frame: FrameType) -> None:
        """Call ``finish`` when the code that runs in ``frame`` has run to its end."""

        def at_end(_frame: FrameType, event: str, _result: Any) -> Any:
            if event != "return":
                return at_end
            if sys.gettrace() is _trace_nothing:
                sys.settrace(None)
            if opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):  # it did not fail
                self.finish()
            return None

        frame.f_trace, frame.f_trace_lines = at_end, False
        sys.settrace(_trace_nothing)

    def finish(self) -> None:
        """Call ``on_import``, the first time where torch is there (its import may have failed) and complete."""
        torch = sys.modules.get("torch")
        if torch is None or self._on_import is None or isinstance(torch, _LazyModule):
            return
        on_import, self._on_import = self._on_import, None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        on_import()


def _namespace(module: ModuleType) -> dict[str, Any]:
    """Return the names of a module; one that loads itself when it is used stays as it is."""
    names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return names


def _running_code(module: ModuleType) -> dict[int, FrameType]:
    """Return the frames in which the code of a module runs, by the threads."""
    names, found = _namespace(module), {}
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = top
        while frame is not None and thread not in found:
            if frame.f_globals is names and frame.f_code.co_name == "<module>":
                found[thread] = frame
            frame = frame.f_back
    return found


def _trace_nothing(_frame: FrameType, _event: str, _argument: Any) -> None:
    """Be the trace function of a thread of which one frame alone is traced."""


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
