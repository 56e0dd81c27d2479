"""Collect from a program without lines of msprobe: ``msprobe run`` loads this when torch has been imported.

Collecting starts at a forward call of the model, and its step ends after each step of an optimizer. The model is the
first module with parameters that is called from outside any module, or the first one of the class that ``--model``
names. For a wrapper of data parallelism or compilation the model inside is used, so that names are those of the model.
Evaluation between the steps of a training is left out (``TrainingCalls``); a program that only evaluates is collected.

What happened is noted for the launcher (``jobs/programs/launcher.py``), which says at the end when nothing was
recorded and why: a process such as torchrun calls no module itself, but its workers do.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_functions import modules_used, watched_compile
from msprobe.adapters.pytorch.compile.compiled_models import class_name, is_compiled
from msprobe.adapters.pytorch.compile.recompilation import is_traced, skip_in_dynamo
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.core.capture.patching import Patches
from msprobe.core.dump.bounds.step_costs import StepCosts
from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.log import first_time, logger

_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule"}
_MOST_NAMES = 8
_COMPILED_HINT = (
    " (compiled code ran, and names no model where msprobe looks: compile the model itself, torch.compile(model), or "
    "make a PrecisionDebugger in the script)"
)

_graph_task = torch._C._current_graph_task_id


def ignore(event: str, **facts: Any) -> None:
    """Take no note: nobody waits for this process."""


def attach(request: str, note: Callable[..., None] = ignore) -> None:
    """Collect from this process.

    Args:
        request: JSON with ``config`` or ``monitor`` (paths) or both, ``model`` (a class name or null), for a dry run
            ``measure``: the folder for what the steps cost.
        note: tells the launcher what happened: ``bootstrap/sitecustomize.py:note``.
    """
    options = json.loads(request)
    config, measure = options.get("config"), options.get("measure")
    if config:
        make = functools.partial(_own_debugger, config)
        dry = None if measure is None else functools.partial(_dry_run, config, measure)
        Attachment(config, options.get("model"), dry or make, note).install()


def script_debugger() -> Any:
    """Return the PrecisionDebugger that the script made; None for none."""
    module = sys.modules.get("msprobe.adapters.pytorch.debugger")
    return None if module is None else module.PrecisionDebugger._instance


def _own_debugger(config: str) -> Any:
    """Return a new debugger. Raises MsprobeException where the script has made one, or as ``PrecisionDebugger``."""
    from msprobe.adapters.pytorch.debugger import PrecisionDebugger

    if PrecisionDebugger._instance is not None:
        raise MsprobeException(3, "the script has a PrecisionDebugger of its own, which is left in charge")
    return PrecisionDebugger(config)


def _dry_run(config: str, folder: str) -> StepCosts:
    """Return what measures the steps of the program and ends it."""
    costs = StepCosts(functools.partial(_own_debugger, config), Path(folder), _synchronize, TorchRuntime().rank)
    if script_debugger() is not None:
        costs.finish(fault="the script makes a PrecisionDebugger of its own; take it out to measure another one")
    return costs


def _synchronize() -> None:
    accelerator = getattr(torch, "accelerator", torch.cuda)  # since torch 2.6
    if accelerator.is_available():
        accelerator.synchronize()


class Use(IntEnum):
    """The modes in which the model is called; the higher, the more likely the call belongs to a training."""

    INFERENCE = 0
    """Without autograd."""
    EVAL_MODE = 1
    """With autograd after ``model.eval()``: evaluation, or the training of a model with frozen statistics."""
    TRAINING = 2
    """With autograd, in training mode."""


def use_of(model: nn.Module) -> Use:
    """Return the modes of a call of ``model`` that begins now."""
    if not torch.is_grad_enabled():
        return Use.INFERENCE
    return Use.TRAINING if model.training else Use.EVAL_MODE


class TrainingCalls:
    """Tell the calls of a training from those of an evaluation: they are the ones in the highest modes seen so far.

    Calls without autograd count only in a program that has made no optimizer. When an optimizer steps on calls that
    were left out after ``model.eval()``, or on the only calls that there were, such calls count from then on.
    """

    def __init__(self) -> None:
        self._needed = Use.INFERENCE
        self._admitted: Use | None = None  # the highest modes of a call that counted
        self._left_out: Use | None = None  # the last call, when it did not count

    @property
    def only_left_out(self) -> bool:
        """Whether there were calls, and none of them counted."""
        return self._admitted is None and self._left_out is not None

    def expect_training(self) -> None:
        """Note that the program has made an optimizer."""
        self._needed = max(self._needed, Use.EVAL_MODE)

    def exceeds(self, use: Use) -> bool:
        """Return whether every call that counted so far was less likely a training."""
        return self._admitted is not None and use > self._admitted

    def admit(self, use: Use) -> bool:
        """Return whether a call belongs to the training, and remember it."""
        if use < self._needed:
            self._left_out = use
            return False
        self._needed = self._admitted = use
        self._left_out = None
        return True

    def learn_from_step(self) -> None:
        """Take note that an optimizer has stepped although the calls since its last step were left out."""
        if self._left_out is Use.EVAL_MODE or self.only_left_out:
            self._needed = self._left_out or Use.INFERENCE
            self._left_out = None


class Attachment:
    """Finds the model, then starts and ends steps. No error in here reaches the program."""

    def __init__(
        self, config: str, model: str | None, make_debugger: Callable[[], Any], note: Callable[..., None] = ignore
    ) -> None:
        self._config = config
        self._make_debugger = make_debugger
        self._note = note
        self._name = model
        self._process = os.getpid()
        self._model: nn.Module | None = None
        self._entries: dict[int, nn.Module] = {}  # by id: calls of the model, or of what was compiled around it
        self._debugger: Any = None
        self._disabled = False
        self._running = False
        self._paused = False  # an evaluation has begun before the step has ended
        self._calls = TrainingCalls()
        self._depth = 0
        self._in_compiled = 0
        self._stepped_in_compiled = False
        self._optimizers = 0
        self._called_classes: dict[str, None] = {}

    def install(self) -> None:
        """Replace the calls of modules and of optimizers, until the process ends."""
        optimizer = torch.optim.Optimizer
        patches = Patches()
        patches.plan(nn.Module, "__call__", self._observed_call(nn.Module.__call__))
        patches.plan(torch, "compile", watched_compile(torch.compile, self._observed_function, skip_in_dynamo))
        patches.plan(optimizer, "profile_hook_step", staticmethod(self._hook_with_end(optimizer.profile_hook_step)))
        patches.apply()
        atexit.register(self._conclude)

    def _observed_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_traced() or self._disabled or (self._running and id(module) not in self._entries):
                return original(module, *args, **kwargs)
            if self._model is None:
                self._find_model(module)
            if id(module) in self._entries:
                self._begin_call()
                return original(module, *args, **kwargs)
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth -= 1

        skip_in_dynamo(call)
        return call

    def _observed_function(self, function: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return what calls a compiled function, in which calls of the model are not seen, as a call of the model."""
        uses_model: bool | None = None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal uses_model
            if is_traced() or self._disabled or self._depth or self._in_compiled:
                return compiled(*args, **kwargs)
            if uses_model is None or self._model is None:
                uses_model = self._finds_in(modules_used(function, args, kwargs))
            if uses_model:
                self._begin_call()
            self._in_compiled += 1
            try:
                return compiled(*args, **kwargs)
            finally:
                self._in_compiled -= 1
                if self._stepped_in_compiled:
                    self._stepped_in_compiled = False
                    self._end()

        return call

    def _finds_in(self, modules: Iterator[nn.Module]) -> bool:
        """Return whether the model is one of these modules; where none is known yet, the first that may be is it."""
        try:
            for module in modules:
                if self._model is None:
                    self._find_model(module)
                if id(module) in self._entries:
                    return True
        except Exception as error:  # noqa: BLE001 - objects of the program are looked at, and it must go on
            if first_time("run: compiled function"):
                logger.warning(
                    "msprobe run: the model that a compiled function calls cannot be looked for (%s): make a "
                    "PrecisionDebugger in the script",
                    error_text(error),
                )
        return False

    def _find_model(self, module: nn.Module) -> None:
        """Take ``module``, or one inside, as the model; without a name only calls from outside any module count."""
        model = self._outermost(module) if self._name is None else self._named(module)
        if model is not None:
            self._model = model
            compiled = (part for part in _wrapped_modules(module) if is_compiled(part))
            self._entries = {id(part): part for part in (model, *compiled)}
        elif len(self._called_classes) < _MOST_NAMES:
            self._called_classes[class_name(module)] = None

    def _outermost(self, module: nn.Module) -> nn.Module | None:
        inside = self._depth > 0 or next(module.parameters(), None) is None
        return None if inside else _wrapped_modules(module)[-1]

    def _named(self, module: nn.Module) -> nn.Module | None:
        """Return the module of the class asked for; also one inside compiled code, whose calls are not seen."""
        parts = module.modules() if is_compiled(module) else [module]
        return next((part for part in parts if self._name in _class_names(part)), None)

    def _begin_call(self) -> None:
        """Start, go on or pause, as the modes of this call of the model say."""
        if os.getpid() != self._process:  # a forked worker
            self._disabled = True
            return
        if _graph_task() != -1 or self._model is None:  # a backward pass repeats a call
            return
        use = use_of(self._model)
        if self._running and self._calls.exceeds(use):  # what this step has so far is evaluation
            self._forget_step()
        if self._running:
            if use is not Use.TRAINING and not self._model.training and not self._calls.admit(use):
                self._pause()
        elif self._calls.admit(use):
            self._start()
        elif first_time("run: evaluation"):
            logger.info("msprobe run: evaluation between the steps of the training is left out")

    def _forget_step(self) -> None:
        """Remove what was recorded in the step; the next one has the same number."""
        self._running = False
        self._debugger.stop()
        self._debugger.step(dump=False)
        self._debugger.service.repeat_number()

    def _pause(self) -> None:
        """Record nothing until the training goes on, in the same step."""
        self._running, self._paused = False, True
        self._debugger.stop()

    def _start(self) -> None:
        try:
            if self._debugger is None:
                self._debugger = self._make_debugger()
                name = type(self._model).__name__
                logger.info("attached to %s", name)
                self._note("attached", model=name)
            self._debugger.start(self._model)
            self._running, self._paused = True, False
        except (MsprobeException, OSError) as error:
            self._disabled = True
            self._note("reason", text=str(error))
            logger.error("msprobe run: nothing is collected: %s", error)

    def _hook_with_end(self, hooked: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that ends the step of collection after the outermost ``step`` of an optimizer.

        Optimizer classes pass their ``step`` through ``hooked`` once. A global hook of the optimizer does not serve:
        hooks must not be removed while they run, and the end of a step removes them.
        """

        def with_end(function: Callable[..., Any]) -> Callable[..., Any]:
            inner = hooked(function)
            self._calls.expect_training()  # this runs when the first optimizer of a class is made

            @functools.wraps(inner)
            def step(*args: Any, **kwargs: Any) -> Any:
                if is_traced():
                    self._stepped_in_compiled = True  # the step ends when the compiled code returns
                    return inner(*args, **kwargs)
                if self._paused and os.getpid() == self._process:
                    self._start()
                self._optimizers += 1
                try:
                    return inner(*args, **kwargs)
                finally:
                    self._optimizers -= 1
                    self._end()

            return step

        return with_end

    def _end(self) -> None:
        if self._optimizers or os.getpid() != self._process:
            return
        if not self._running:
            self._calls.learn_from_step()
        else:
            self._running = False
            self._debugger.stop()
            self._debugger.step()

    def _conclude(self) -> None:
        """Note at the end of the process how many steps there were, or why there was none."""
        if os.getpid() != self._process or self._disabled:
            return
        if self._debugger is not None:
            self._note("steps", steps=self._debugger.service.loop)
        elif script_debugger() is not None:
            self._note("own debugger")
        else:
            self._note("reason", text=self._why_nothing())

    def _why_nothing(self) -> str:
        if self._calls.only_left_out:
            return (
                f"{type(self._model).__name__} was called without autograd only, which counts as evaluation in a "
                "program that makes an optimizer; make a PrecisionDebugger in the script to record it"
            )
        sought = "a model with parameters" if self._name is None else f"a module of class {self._name}"
        hint = _COMPILED_HINT if _compiled_code_ran() else ""
        if self._called_classes:
            return f"{sought} was never called; called were: {', '.join(self._called_classes)}{hint}"
        return (
            f"{sought} was never called, nor any other module{hint}; calls of functions alone are collected where the "
            "script makes a PrecisionDebugger and calls start()"
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
