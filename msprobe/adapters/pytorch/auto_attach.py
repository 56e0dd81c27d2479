"""Collect from a program without lines of msprobe: ``msprobe run`` loads this when torch has been imported.

Collecting starts at a forward call of the model, and its step ends after each step of an optimizer. The model is the
first module with parameters that is called from outside any module, or the first one of the class that ``--model``
names. For a wrapper of data parallelism or compilation the model inside is used, so that names are those of the model.

At the end of the program a message says when nothing was recorded (``RecordWatch``). Only the first Python process
checks that. A launcher such as torchrun calls no module itself, but its workers do. So the check is not what this
process called but whether anything was written to the dump folder since the start.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_models import class_name, is_compiled
from msprobe.adapters.pytorch.compile.recompilation import is_traced, skip_in_dynamo
from msprobe.core.capture.patching import Patches
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger

_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule"}
_MOST_NAMES = 8
_COMPILED_HINT = (
    " (what is called inside a compiled function is not found: compile the model itself, torch.compile(model), or make "
    "a PrecisionDebugger in the script)"
)

_FIRST_PROCESS = "MSPROBE_RUN_FIRST"
_CLOCKS_DIFFER_S = 1.0


def attach(request: str) -> None:
    """Collect from this process.

    Args:
        request: JSON with ``config`` (a path) and ``model`` (a class name or null).
    """
    options = json.loads(request)
    Attachment(options["config"], options.get("model")).install()


class Attachment:
    """Finds the model, then starts and ends steps. No error in here reaches the program."""

    def __init__(self, config: str, model: str | None) -> None:
        self._config = config
        self._name = model
        self._process = os.getpid()
        self._model: nn.Module | None = None
        self._entries: list[nn.Module] = []  # calls that begin a step: of the model, or of what was compiled around it
        self._debugger: Any = None
        self._disabled = False
        self._running = False
        self._depth = 0
        self._optimizers = 0
        self._called_classes: dict[str, None] = {}
        self._watch: RecordWatch | None = None

    def install(self) -> None:
        """Replace the calls of modules and of optimizers, until the process ends."""
        self._watch = first_watch(self._config)
        optimizer = torch.optim.Optimizer
        patches = Patches()
        patches.plan(nn.Module, "__call__", self._observed_call(nn.Module.__call__))
        patches.plan(optimizer, "profile_hook_step", staticmethod(self._hook_with_end(optimizer.profile_hook_step)))
        patches.apply()
        atexit.register(self._conclude)

    def _observed_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_traced() or self._running or self._disabled:
                return original(module, *args, **kwargs)
            if self._model is None:
                self._find_model(module)
            if any(entry is module for entry in self._entries):
                self._start()
                return original(module, *args, **kwargs)
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth -= 1

        skip_in_dynamo(call)
        return call

    def _find_model(self, module: nn.Module) -> None:
        """Take ``module``, or one inside, as the model; without a name only calls from outside any module count."""
        model = self._outermost(module) if self._name is None else self._named(module)
        if model is not None:
            self._model = model
            self._entries = [model, *(part for part in _wrapped_modules(module) if is_compiled(part))]
        elif len(self._called_classes) < _MOST_NAMES:
            self._called_classes[class_name(module)] = None

    def _outermost(self, module: nn.Module) -> nn.Module | None:
        inside = self._depth > 0 or next(module.parameters(), None) is None
        return None if inside else _wrapped_modules(module)[-1]

    def _named(self, module: nn.Module) -> nn.Module | None:
        """Return the module of the class asked for; also one inside compiled code, whose calls are not seen."""
        parts = module.modules() if is_compiled(module) else [module]
        return next((part for part in parts if self._name in _class_names(part)), None)

    def _start(self) -> None:
        from msprobe.adapters.pytorch.debugger import PrecisionDebugger

        if os.getpid() != self._process:  # a forked worker
            self._disabled = True
            return
        try:
            if self._debugger is None:
                if PrecisionDebugger._instance is not None:
                    raise MsprobeException(3, "the script has a PrecisionDebugger of its own, which is left in charge")
                self._debugger = PrecisionDebugger(self._config)
                logger.info("attached to %s", type(self._model).__name__)
            self._debugger.start(self._model)
            self._running = True
        except (MsprobeException, OSError) as error:
            self._disabled = True
            logger.error("msprobe run: nothing is collected: %s", error)

    def _hook_with_end(self, hooked: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that ends the step of collection after the outermost ``step`` of an optimizer.

        Optimizer classes pass their ``step`` through ``hooked`` once. A global hook of the optimizer does not serve:
        hooks must not be removed while they run, and the end of a step removes them.
        """

        def with_end(function: Callable[..., Any]) -> Callable[..., Any]:
            inner = hooked(function)

            @functools.wraps(inner)
            def step(*args: Any, **kwargs: Any) -> Any:
                self._optimizers += 1
                try:
                    return inner(*args, **kwargs)
                finally:
                    self._optimizers -= 1
                    self._end()

            return step

        return with_end

    def _end(self) -> None:
        if self._running and not self._optimizers and os.getpid() == self._process:
            self._running = False
            self._debugger.stop()
            self._debugger.step()

    def _conclude(self) -> None:
        if os.getpid() != self._process or self._disabled or self._debugger is not None:
            return
        sought = "a model with parameters" if self._name is None else f"a module of class {self._name}"
        hint = _COMPILED_HINT if _compiled_code_ran() else ""
        if self._called_classes:
            names = ", ".join(self._called_classes)
            logger.warning("msprobe run: %s was never called; called were: %s%s", sought, names, hint)
        elif self._watch is not None and not self._watch.recorded_anything():
            logger.warning(
                "msprobe run: nothing was recorded: %s was never called, nor any other module%s; calls of functions "
                "alone are collected where the script makes a PrecisionDebugger and calls start()",
                sought,
                hint,
            )


def _wrapped_modules(module: nn.Module) -> list[nn.Module]:
    """Return a module and the modules that it wraps, down to the model; each calls the next."""
    modules = [module]
    while type(modules[-1]).__name__ in _WRAPPERS:
        inner = getattr(modules[-1], "_orig_mod", None) or getattr(modules[-1], "module", None)
        if not isinstance(inner, nn.Module):
            break
        modules.append(inner)
    return modules


def _class_names(module: nn.Module) -> tuple[str, str]:
    kind = type(module)
    return kind.__name__, f"{kind.__module__}.{kind.__name__}"


def _compiled_code_ran() -> bool:
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters["frames"]["ok"])


def first_watch(config: str) -> RecordWatch | None:
    """Return a watch in the first Python process of a program, and None in those that it starts."""
    if os.environ.setdefault(_FIRST_PROCESS, str(os.getpid())) != str(os.getpid()):
        return None
    return RecordWatch(config, Path.cwd(), time.time())


@dataclass(frozen=True, slots=True)
class RecordWatch:
    """The start of a program.

    Attributes:
        config: the file of the configuration.
        folder: the folder to which relative paths in it refer.
        started: the time of the start, in seconds of ``time.time``.
    """

    config: str
    folder: Path
    started: float

    def recorded_anything(self) -> bool:
        """Return whether something was recorded, or the script collects by itself; True also where that is unknown."""
        debugger = sys.modules.get("msprobe.adapters.pytorch.debugger")
        if debugger is not None and debugger.PrecisionDebugger._instance is not None:
            return True
        from msprobe.core.config import load_config
        from msprobe.core.errors import MsprobeException

        try:
            dump_path = load_config(self.config).dump_path
            return not dump_path or self._changed(self.folder / dump_path)
        except (MsprobeException, OSError):
            return True

    def _changed(self, dump: Path) -> bool:
        since = self.started - _CLOCKS_DIFFER_S
        return any(path.stat().st_mtime >= since for pattern in ("*", "*/*") for path in dump.glob(pattern))
