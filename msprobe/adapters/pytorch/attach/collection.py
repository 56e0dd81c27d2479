"""What is done with the iterations of an attached program: they become the steps of a debugger."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from msprobe.adapters.pytorch.attach.models import MAIN
from msprobe.adapters.pytorch.attach.module_tree import Around
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.core.capture.function_calls import Called
from msprobe.core.dump.bounds.step_costs import StepCosts
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import imported_whole


class Collection(Protocol):
    """Records iterations. An error that a method raises ends everything."""

    subject: str
    """What is attached, in messages."""
    event: str
    """What the launcher is told when the first iteration was recorded."""

    def expect(self) -> None:
        """Prepare for the first iteration. Raises MsprobeException, OSError."""
        ...

    def start(self, models: Mapping[str, nn.Module]) -> None:
        """Begin or continue an iteration, or name further models in one that runs. Raises MsprobeException, OSError."""
        ...

    def watch_functions(self, called: Called) -> bool:
        """Tell ``called`` of each call of a function, until an iteration begins or ends; return whether functions are
        recorded."""
        ...

    def try_out(self) -> bool:
        """Begin an iteration of functions alone, which gives way to what the script makes; return whether it began."""
        ...

    def keep(self) -> bool:
        """Take that iteration for one; return whether nothing has come in its place."""
        ...

    def pause(self) -> None:
        """Record nothing until the next ``start``, in the same iteration."""
        ...

    def leave_out_thread(self, left_out: bool) -> None:
        """Record nothing that this thread calls, or record it again."""
        ...

    def forget(self) -> None:
        """End the iteration as if it had not been: the next one has its number, and the one before what is read."""
        ...

    def complete(self) -> None:
        """Keep what the iteration has, as it has made its updates: the process may be killed before it ends."""
        ...

    def end(self) -> None:
        """End the iteration. What the program reads until the next one begins, or ``settle``, belongs to it."""
        ...

    def settle(self) -> None:
        """Record nothing more of an iteration that has ended, or was forgotten."""
        ...

    def conclude(self) -> None:
        """End everything, with the program."""
        ...


class DebuggerSteps:
    """Implements ``Collection``: each iteration is a step of a debugger.

    It is made when the program makes a model or an optimizer, or when the first iteration begins. Until then it gives
    way to one that the script makes.
    """

    subject = "msprobe run"
    event = "attached"

    def __init__(self, make_debugger: Callable[[], Any]) -> None:
        self._make_debugger = make_debugger
        self._debugger: Any = None
        self._started = False
        self._ended = self._forgotten = False
        self._around: list[Around] = []  # of the present iteration, as others hold them weakly

    def expect(self) -> None:
        if self._debugger is None and script_debugger() is None:
            self._debugger = self._make_debugger()
            self._debugger.service.hold_functions()
            _debugger_class().gives_way = script_debugger() is not None

    def start(self, models: Mapping[str, nn.Module]) -> None:
        self.settle()
        if self._debugger is None or (not self._started and script_debugger() not in {None, self._debugger}):
            self._debugger = self._make_debugger()
        if not self._started:
            self._started = True
            _debugger_class().gives_way = False
        bare = {name: Around(model) for name, model in models.items() if not any(True for _ in model.children())}
        models = {**models, **bare}  # a model itself is no entry, so what is a layer alone is put inside of something
        self._around += bare.values()
        self._debugger.start(models[MAIN] if list(models) == [MAIN] else models)

    def watch_functions(self, called: Called) -> bool:
        mine = self._debugger is not None and (self._started or script_debugger() in {None, self._debugger})
        return mine and bool(self._debugger.service.watch_functions(called))

    def try_out(self) -> bool:
        if self._started or self._debugger is None or script_debugger() is not self._debugger:
            return False
        self._debugger.start({})
        return bool(self._debugger.service.opened)

    def keep(self) -> bool:
        self._started = script_debugger() is self._debugger
        _debugger_class().gives_way = _debugger_class().gives_way and not self._started
        return self._started

    def pause(self) -> None:
        self._debugger.stop()
        self._debugger.service.hold_functions()

    def leave_out_thread(self, left_out: bool) -> None:
        if self._debugger is not None:
            self._debugger.service.leave_out_thread(left_out)

    def forget(self) -> None:
        if not self._has_given_way:
            self._forgotten = True
            self.end()

    def complete(self) -> None:
        self._debugger.service.flush()

    def end(self) -> None:
        self._debugger.stop()
        self._around.clear()
        self._ended = True
        if not self._debugger.service.opened:
            self.settle()
        self._debugger.service.hold_functions()

    def settle(self) -> None:
        ended, forgotten, self._ended, self._forgotten = self._ended, self._forgotten, False, False
        if not ended or self._has_given_way:
            return
        if forgotten:
            self._debugger.service.return_reads()
        self._debugger.step(dump=not forgotten)
        if forgotten:
            self._debugger.service.repeat_number()

    @property
    def _has_given_way(self) -> bool:
        """Whether the script has made a debugger of its own before the first iteration."""
        return not self._started and script_debugger() is not self._debugger

    def conclude(self) -> None:
        """Take back a debugger that no iteration has used; another one ends with the process."""
        if self._debugger is not None and not self._started:
            _debugger_class()._withdraw()


def debugger_steps(config: str, measure: str | None, first_step: int) -> DebuggerSteps:
    """Return what records the iterations as ``config`` says.

    Args:
        config: the path of the configuration.
        measure: for a dry run the folder for what the steps cost; None otherwise.
        first_step: the number of the first step.
    """
    make = functools.partial(_own_debugger, config, first_step)
    return DebuggerSteps(make if measure is None else functools.partial(_dry_run, make, measure))


def script_debugger() -> Any:
    """Return the PrecisionDebugger that the script made; None for none."""
    module = imported_whole("msprobe.adapters.pytorch.debugger")
    return None if module is None else module.PrecisionDebugger._instance


def _debugger_class() -> Any:
    from msprobe.adapters.pytorch.debugger import PrecisionDebugger

    return PrecisionDebugger


def _own_debugger(config: str, first_step: int) -> Any:
    """Return a new debugger. Raises MsprobeException where the script has made one, or as ``PrecisionDebugger``."""
    if script_debugger() is not None:
        raise MsprobeException(3, "the script has a PrecisionDebugger of its own, which is left in charge")
    debugger = _debugger_class()(config)
    debugger.set_init_step(first_step)
    return debugger


def _dry_run(make_debugger: Callable[[], Any], folder: str) -> StepCosts:
    """Return what measures the steps of the program and ends it."""
    costs = StepCosts(make_debugger, Path(folder), _synchronize, TorchRuntime().rank)
    if script_debugger() is not None:
        costs.finish(fault="the script makes a PrecisionDebugger of its own; take it out to measure another one")
    return costs


def _synchronize() -> None:
    accelerator = getattr(torch, "accelerator", torch.cuda)  # since torch 2.6
    if accelerator.is_available():
        accelerator.synchronize()
