"""The optimizers of the program: which there are, what they hold, and when each makes an update.

An update is a ``step`` of an optimizer that returned, or one of a ``GradScaler``, also where that one skips the
optimizer. Optimizer classes pass their ``step`` through ``Optimizer.profile_hook_step`` once, which is replaced. A
global hook of the optimizer does not serve: hooks must not be removed while they run, and the end of a step does that.
"""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from msprobe.adapters.pytorch.compile.recompilation import is_traced
from msprobe.adapters.pytorch.step_closures import closure_of
from msprobe.core.capture.patching import Patches


class UpdateReports(Protocol):
    """Is told of optimizers and their updates."""

    def optimizer_made(self) -> None:
        """Take note of a new optimizer, whose parameters are known."""
        ...

    def update_begins(self, optimizer: Any, by_closure: bool) -> None:
        """Take note that an update of an optimizer begins; ``by_closure``: it calls the model itself."""
        ...

    def update_ends(self, optimizers: Iterable[int]) -> None:
        """Take note that an update has ended: the ids of the optimizers that made it."""
        ...


class _Updates(threading.local):
    """The updates that run in this thread: how many inside each other, and the ids of their optimizers."""

    def __init__(self) -> None:
        self.depth = 0
        self.optimizers: set[int] = set()


class Optimizers:
    """Follows the optimizers of the program, which are held weakly.

    Args:
        reports: is told of them.

    Attributes:
        made: how many optimizers were seen so far.
        stepped_in_compiled: whether compiled code has made a step; whoever called that code resets it.
    """

    def __init__(self, reports: UpdateReports) -> None:
        self.made = 0
        self.stepped_in_compiled = False
        self._reports = reports
        self._alive: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._updates = _Updates()
        self._steps: dict[Any, Callable[..., Any]] = {}  # what stands for the step of a class, and the step

    def plan(self, patches: Patches) -> None:
        """Add what sees the optimizers to ``patches``; those that were made before are looked for."""
        patches.plan(Optimizer, "__init__", self._observed_making(Optimizer.__init__))
        patches.plan(Optimizer, "profile_hook_step", staticmethod(self._observed_hook(Optimizer.profile_hook_step)))
        scaler: Any = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)  # the first since torch 2.3
        patches.plan(scaler, "step", self._observed_scaler(scaler.step))
        hooked = [kind for kind in _subclasses(Optimizer) if getattr(vars(kind).get("step"), "hooked", False)]
        for kind in hooked:
            kind.step = self._replaced_step(vars(kind)["step"])
        objects: list[Any] = gc.get_objects() if hooked else []
        for one in objects:
            if issubclass(type(one), Optimizer):
                self._add(one)

    def release(self) -> None:
        """Give the classes of optimizers their steps back."""
        for kind in _subclasses(Optimizer):
            step = vars(kind).get("step")
            original: Any = self._steps.get(step)
            if original is not None:
                original.hooked = getattr(step, "hooked", False)  # else torch wraps it once more, and hooks run twice
                kind.step = original

    @property
    def updating(self) -> bool:
        """Whether an optimizer makes an update in this thread."""
        return self._updates.depth > 0

    def held(self) -> dict[int, nn.Parameter]:
        """Return the parameters of modules that the living optimizers hold, by id."""
        return {id(one): one for optimizer in list(self._alive) for one in _parameters(optimizer)}

    def holds_all(self, optimizer: Any) -> bool:
        """Return whether an optimizer holds all parameters that the living ones hold."""
        return self.held().keys() <= {id(one) for one in _parameters(optimizer)}

    def training(self) -> dict[int, str]:
        """Return ids and classes of the living optimizers."""
        return {id(one): type(one).__name__ for one in list(self._alive)}

    def _add(self, optimizer: Any) -> None:
        if isinstance(optimizer, Optimizer) and optimizer not in self._alive:
            self._alive.add(optimizer)
            self.made += 1
            self._reports.optimizer_made()

    def _observed_making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self._add(optimizer)

        return init

    def _observed_hook(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def profile_hook_step(step: Callable[..., Any]) -> Callable[..., Any]:
            return self._replaced_step(original(step))

        return profile_hook_step

    def _replaced_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        step = self._observed_step(original)
        self._steps[step] = original
        return step

    def _observed_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step(*args: Any, **kwargs: Any) -> Any:
            if is_traced():
                self.stepped_in_compiled = True  # the update ends when the compiled code returns
                return original(*args, **kwargs)
            self._add(args[0])
            by_closure = closure_of(args, kwargs) is not None
            return self._update(args[0], by_closure, functools.partial(original, *args, **kwargs))

        return step

    def _observed_scaler(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(scaler, optimizer, *args, **kwargs)
            return self._update(optimizer, False, functools.partial(original, scaler, optimizer, *args, **kwargs))

        return step

    def _update(self, optimizer: Any, by_closure: bool, run: Callable[[], Any]) -> Any:
        """Make an update; the outermost of several inside each other is reported, if it returns."""
        updates = self._updates
        if not updates.depth:
            updates.optimizers.clear()
            self._reports.update_begins(optimizer, by_closure)
        updates.optimizers.add(id(optimizer))
        updates.depth += 1
        try:
            result = run()
        finally:
            updates.depth -= 1
        if not updates.depth:
            self._reports.update_ends(tuple(updates.optimizers))
        return result


def _parameters(optimizer: Optimizer) -> Iterator[nn.Parameter]:
    groups = getattr(optimizer, "param_groups", ())
    return (one for group in groups for one in group["params"] if isinstance(one, nn.Parameter))


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)
