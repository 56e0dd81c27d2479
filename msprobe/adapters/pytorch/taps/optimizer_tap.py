"""Optimizer steps and gradient clipping: what each step is told to do, and parents for the calls inside.

The settings of an optimizer and the names of its parameters stand in the header of dump.json, and the calls that a step
or a clipping makes have a parent in construct.json. The header also says where the program calls ``backward`` and
``zero_grad``.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced
from msprobe.adapters.pytorch.step_closures import Closure, closure_of, with_closure
from msprobe.adapters.pytorch.taps.parameter_names import ParameterNames
from msprobe.adapters.pytorch.taps.training.gradient_threads import GradientThreads
from msprobe.adapters.pytorch.taps.training.kept_gradients import KeptGradients
from msprobe.adapters.pytorch.taps.training.nested_backward import NestedBackward
from msprobe.adapters.pytorch.taps.training.training_calls import clipping_facts, generation_calls, scheduler_calls
from msprobe.core.capture.observer import CurrentObserver, Group
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.slots import place_of

_STEP = "Optimizer.step#"  # the name of the profiler block in which torch runs a step and its hooks
_NAMES_SHOWN = 8
_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_")


class OptimizerHooks:
    """Implements ``Replacement``: torch's global hooks before and after the step of any optimizer."""

    def __init__(self, before: Callable[..., object], after: Callable[..., object]) -> None:
        self._before = before
        self._after = after
        self._handles: list[Any] = []

    def apply(self) -> None:
        if not self._handles:
            optimizers = _optimizers()
            self._handles.append(optimizers.register_optimizer_step_pre_hook(self._before))
            self._handles.append(optimizers.register_optimizer_step_post_hook(self._after))

    def undo(self) -> None:
        while self._handles:
            self._handles[-1].remove()
            self._handles.pop()
        for table, hook in (("pre", self._before), ("post", self._after)):  # an interrupt may have kept a handle back
            hooks = getattr(_optimizers(), f"_global_optimizer_{table}_hooks", {})
            for key in [key for key, registered in list(hooks.items()) if registered is hook]:
                del hooks[key]


def _optimizers() -> Any:
    return sys.modules["torch.optim.optimizer"]  # torch.optim hides its submodule behind a function


def _do_nothing(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Stand for a hook that is not needed."""


class _StepScopes(threading.local):
    """The scopes of the optimizer steps that run in this thread, the innermost last."""

    def __init__(self, current: CurrentObserver) -> None:
        self._current = current
        self._tokens: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def enter(self) -> bool:
        """Begin the scope of a step; return whether somebody observes it."""
        observer = self._current.observer
        if observer is not None:
            self._tokens.append(observer.enter("optimizer"))
        return observer is not None

    def leave(self) -> bool:
        """End the innermost scope; return whether there was one."""
        observer, ends = self._current.observer, bool(self._tokens)
        if ends and observer is not None:
            observer.leave(self._tokens.pop())
        return ends and observer is not None

    def outside(self, closure: Closure) -> Closure:
        """Return a closure of a step whose calls are those of the program."""

        @functools.wraps(closure)
        def call(*args: Any, **kwargs: Any) -> Any:
            left = self.leave()
            try:
                return closure(*args, **kwargs)
            finally:
                if left:
                    self.enter()

        return call


class TorchOptimizerTap:
    """Implements ``OptimizerTap`` with torch's global optimizer hooks and wrapped clipping functions.

    Args:
        current: holds the current observer.
        names: the names of the parameters of the adopted models.
        threads: the threads that compute gradients.
        passes: is told of backward passes.
    """

    def __init__(
        self, current: CurrentObserver, names: ParameterNames, threads: GradientThreads, passes: NestedBackward
    ) -> None:
        self._current = current
        self._names = names
        self._passes = passes
        self._threads = threads
        self._kept = KeptGradients(threads)

    @contextlib.contextmanager
    def attach(self, scopes: bool) -> Iterator[None]:
        with contextlib.ExitStack() as replaced:
            if scopes:
                hooks, failures = self._steps()
                replaced.enter_context(RECOMPILE_GUARD.in_force(failures))
                for patches in (self._clipping(), scheduler_calls(self._current), self._generations()):
                    replaced.enter_context(RECOMPILE_GUARD.in_force(patches))
            else:
                hooks = OptimizerHooks(self._report, _do_nothing)
            replaced.enter_context(RECOMPILE_GUARD.in_force(hooks))
            replaced.enter_context(RECOMPILE_GUARD.in_force(self._gradient_calls()))
            yield

    def _report(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        observer = self._current.observer
        if observer is not None and not is_traced():
            observer.training_call("kept_gradients", lambda: self._kept_at(optimizer), optimizer)
            observer.optimizer_step(optimizer, self._groups)

    def _kept_at(self, optimizer: Any) -> dict[str, Any] | None:
        kept = self._kept.at_step(optimizer)
        names = [name for name in self._names.of(kept) if name is not None] if kept else []
        return {"count": len(names), "parameters": names[:_NAMES_SHOWN]} if names else None

    def _step_done(self, optimizer: Any, with_closure: bool) -> dict[str, Any] | None:
        """Remember the gradients that a step has used; return those that its closure has added to earlier ones."""
        kept = self._kept_at(optimizer) if with_closure else None
        self._kept.step_done(optimizer)
        return None if kept is None else {"by_closure": True, **kept}

    def _generations(self) -> Patches:
        return generation_calls(self._current, self._names.models())

    def _groups(self, optimizer: Any) -> list[Group]:
        """Return the settings of each parameter group, and the names of its parameters."""
        return [
            ({key: value for key, value in group.items() if key != "params"}, self._names.of(group["params"]))
            for group in optimizer.param_groups
        ]

    def _steps(self) -> tuple[OptimizerHooks, Patches]:
        """Return the hooks for steps, and patches for steps that raise, after which torch calls no hook."""
        scopes = _StepScopes(self._current)

        def before(optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
            self._report(optimizer, args, kwargs)
            return with_closure(args, kwargs, scopes.outside) if scopes.enter() and not is_traced() else None

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            observer = self._current.observer
            if scopes.leave() and observer is not None and optimizer is not None and not is_traced():
                by_closure = closure_of(args, kwargs) is not None
                observer.training_call("kept_gradients", lambda: self._step_done(optimizer, by_closure), optimizer)

        block = torch.autograd.profiler.record_function
        original = block.__exit__

        @functools.wraps(original)
        def leave(self: Any, kind: Any, error: Any, trace: Any) -> Any:
            if kind is not None and scopes and self.name.startswith(_STEP):
                after(None, None, None)
            return original(self, kind, error, trace)

        failures = Patches()
        failures.plan(block, "__exit__", leave)
        return OptimizerHooks(before, after), failures

    def _clipping(self) -> Patches:
        patches = Patches()
        wrappers: dict[Any, Callable[..., Any]] = {}  # by original, which both owners hold
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in _CLIPS:
                original = getattr(owner, name, None)
                if original is not None:
                    wrapper = wrappers.get(original) or self._with_scope("clip_grad", original)
                    wrappers[original] = wrapper
                    patches.plan(owner, name, wrapper)
        return patches

    def _gradient_calls(self) -> Patches:
        """Return patches that report where gradients are computed and cleared."""
        patches = Patches()
        backward = place_of(torch.autograd, "backward")
        patches.plan(*backward, self._reported_backward(getattr(*backward)))
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            zero_grad = place_of(owner, "zero_grad")
            patches.plan(*zero_grad, self._reported_clearing(getattr(*zero_grad)))
        return patches

    def _reported_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(*args, **kwargs)
            self._threads.note()
            observer = self._current.observer
            if observer is None:
                return original(*args, **kwargs)
            observer.gradient_call("backward")
            observer.training_call("", self._kept.before_backward, None)
            try:
                with self._passes.running():
                    return original(*args, **kwargs)
            finally:
                observer.training_call("", self._kept.after_backward, None)

        return backward

    def _reported_clearing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def zero_grad(*args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(*args, **kwargs)
            self._threads.note()
            result = original(*args, **kwargs)
            observer = self._current.observer
            if observer is not None:
                observer.gradient_call("zero_grad")
            return result

        return zero_grad

    def _with_scope(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(*args, **kwargs)
            observer = self._current.observer
            if observer is None:
                return original(*args, **kwargs)
            record = observer.enter(name)
            try:
                result = original(*args, **kwargs)
                observer.training_call(name, lambda: clipping_facts(original, args, kwargs, result), None)
                return result
            finally:
                observer.leave(record)

        return call
