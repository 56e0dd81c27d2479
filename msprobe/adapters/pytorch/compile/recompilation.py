"""Decide which version of compiled code runs while functions of torch are replaced.

Compiled code depends on the functions that it was compiled with (Dynamo's guards). ``RecompileGuard`` takes care of
three consequences for every replacement that is in force:

- A program may forbid to compile again. Where recompiling is an error, meeting other functions raises. So the
  replacements are removed while a thread is in compiled code, and restored when it leaves that code or calls a part
  that is excluded from compilation. A program that may compile pays two comparisons for each entry.
- Dynamo lists the functions of torch by identity. It must list the originals, so it does that before the first
  replacement, and its list is built again when Dynamo was loaded in between.
- Importing Dynamo takes seconds. It is imported when the program first calls ``torch.compile``, with the originals
  restored; what must be prepared for compiled code is prepared then.

``reporting_versions`` runs compiled code in a version that reports module calls. Dynamo keeps several versions of a
compiled function and runs the first whose guards hold. Every version guards on the type of torch's tables of global
module hooks. While collecting, one of these tables is replaced by one of another type, an ordered dictionary with the
same content (``SharedTable``): then the versions without reports do not match, and afterwards those with reports do
not. Each version is compiled once, however often collecting starts and stops.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FunctionType
from typing import Any, Protocol

import torch
from torch.nn.modules import module as hooks

from msprobe.adapters.pytorch.compile.compiled_probes import define_operators, enter, leave, observe_function
from msprobe.adapters.pytorch.compile.compiler_guard import unobserved_compiler
from msprobe.core.capture.direct_calls import ReplacedMethods
from msprobe.core.capture.patching import Patches, Undo, name_after_owner, note_applied
from msprobe.core.capture.slots import Slot
from msprobe.core.capture.thread_state import Quiet, ThreadState
from msprobe.core.dump.record.collector import Collector
from msprobe.core.interruption import import_whole, imported_whole
from msprobe.core.log import first_time, logger

_ENTRY = "_maybe_set_eval_frame"  # called with what handles new frames, None for nothing, at every entry and exit
_FORBIDDING = ("fail_on_recompile", "eager_on_recompile")

_HOOK_TABLE = "_global_backward_pre_hooks"
_OPERATORS: list[Any] = []  # the library of operators, once it is defined
is_traced: Callable[[], bool] = getattr(torch.compiler, "is_dynamo_compiling", lambda: False)
_is_exported: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)

Prepare = Callable[[], AbstractContextManager[None]]


class RecompileGuard:
    """All replacements in force, and how many threads run compiled code without them at the moment.

    ``suspended``: whether any replacement was taken away since the first of them was put in force.
    """

    def __init__(self) -> None:
        self.suspended = False
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._threads_inside = 0
        self._in_force: list[Replacement] = []
        self._entry_before: Callable[..., Any] | None = None
        self._originals_listed = False
        self._waiting: dict[contextlib.ExitStack, Prepare] = {}
        self._compile_patch = Patches()

    @contextlib.contextmanager
    def in_force(self, replacement: Replacement) -> Iterator[None]:
        """Keep ``replacement`` in place inside, except in compiled code that must not be compiled again."""
        release = Undo(functools.partial(self._release, replacement))
        note_applied(release)
        try:
            with self._lock:
                if not self._in_force:
                    self._originals_listed = register_originals()
                self._in_force.append(replacement)
                self._watch_entries()
                replacement.apply()
            yield
        finally:
            release.undo()

    def _release(self, replacement: Replacement) -> None:
        """Take ``replacement`` away for good; a second time does no harm."""
        with self._lock:
            replacement.undo()
            if replacement in self._in_force:
                self._in_force.remove(replacement)
            if not self._in_force:
                self._unwatch_entries()
                if not self._originals_listed:
                    clear_dynamo_rules()

    @contextlib.contextmanager
    def with_dynamo(self, prepare: Prepare) -> Iterator[None]:
        """Enter the context that ``prepare`` returns now if Dynamo is loaded, else when ``torch.compile`` is called.

        It is left at the end of this one.
        """
        with contextlib.ExitStack() as entered:
            note_applied(Undo(functools.partial(self._stop_waiting, entered)))
            note_applied(Undo(entered.close))
            entered.callback(self._stop_waiting, entered)
            with self._lock:
                if _dynamo_is_loaded():
                    entered.enter_context(prepare())
                else:
                    self._waiting[entered] = prepare
                    self._watch_compile()
            yield

    @contextlib.contextmanager
    def originals(self, direct: ReplacedMethods) -> Iterator[None]:
        """Put originals back inside, and those that ``direct`` stands for below them."""
        with self._lock:
            applied, removed = direct.applied, not self._threads_inside
            if removed:
                self._remove_all()
            direct.undo()
            try:
                yield
            finally:
                if applied:
                    direct.apply()
                if removed:
                    self._apply_all()

    def _stop_waiting(self, entered: contextlib.ExitStack) -> None:
        with self._lock:
            self._waiting.pop(entered, None)
            if not self._waiting:
                self._compile_patch.undo()

    def _watch_compile(self) -> None:
        """Replace ``torch.compile`` by a function that first loads Dynamo."""
        if self._compile_patch.applied:
            return
        original = torch.compile

        @functools.wraps(original)
        def compile_prepared(*args: Any, **kwargs: Any) -> Any:
            self._load_dynamo()
            return original(*args, **kwargs)

        self._compile_patch = Patches()
        self._compile_patch.plan(torch, "compile", compile_prepared)
        self._compile_patch.apply()

    def _load_dynamo(self) -> None:
        """Import Dynamo, with the originals in place, and enter the contexts that wait for it."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            self._compile_patch.undo()
            if waiting and not _dynamo_is_loaded():
                self._remove_all()
                try:
                    import_whole("torch._dynamo")
                    register_originals()
                finally:
                    self._apply_all()
            self._watch_entries()
            for entered, prepare in waiting.items():
                entered.enter_context(prepare())

    def _watch_entries(self) -> None:
        """See entries into compiled code from now on, if Dynamo is loaded and something is in force."""
        frames = _part_of_dynamo("eval_frame")
        if self._entry_before is None and self._in_force and hasattr(frames, _ENTRY):
            self.suspended = False
            self._entry_before = getattr(frames, _ENTRY)
            entry = self._observed_entry(self._entry_before, frames)
            name_after_owner(entry, frames, _ENTRY)
            setattr(frames, _ENTRY, entry)

    def _unwatch_entries(self) -> None:
        if self._entry_before is not None:
            setattr(sys.modules["torch._dynamo.eval_frame"], _ENTRY, self._entry_before)
        self._entry_before = None
        self._thread, self._threads_inside = threading.local(), 0

    def _observed_entry(self, original: Any, frames: Any) -> Callable[[Any], Any]:
        config = sys.modules["torch._dynamo.config"]

        @functools.wraps(original)
        def switch(callback: Any) -> Any:
            if callback is None:
                self._move(inside=False)
            elif config.error_on_recompile or _forbids_recompiling(getattr(frames, "_stance", None)):
                self._move(inside=True)
            return original(callback)

        return switch

    def _move(self, inside: bool) -> None:
        """Note that this thread enters, or leaves, code that must not see what is in force."""
        if inside is getattr(self._thread, "inside", False):
            return
        with self._lock:
            self._thread.inside = inside
            self._threads_inside += 1 if inside else -1
            if inside and self._threads_inside == 1:
                self._suspend()
            elif self._threads_inside == 0:
                self._apply_all()

    def _suspend(self) -> None:
        self._remove_all()
        self.suspended = True
        if first_time("recompile"):
            logger.warning(
                "calls inside compiled code are not recorded, because this program forbids to compile again "
                "(torch._dynamo.config.error_on_recompile or torch.compiler.set_stance): allow it while collecting"
            )

    def _apply_all(self) -> None:
        for replacement in self._in_force:
            replacement.apply()

    def _remove_all(self) -> None:
        for replacement in reversed(self._in_force):
            replacement.undo()


class Replacement(Protocol):
    """Something that stands in the place of something else, and can be put there and taken away any number of times."""

    def apply(self) -> None:
        """Put the replacement in place."""
        ...

    def undo(self) -> None:
        """Take the replacement away."""
        ...


def register_originals() -> bool:
    """Have Dynamo list the functions of torch by identity now, while nothing is wrapped; False if it is not loaded."""
    rules = _part_of_dynamo("trace_rules")
    if rules is not None:
        rules.get_torch_obj_rule_map()
    return rules is not None


def clear_dynamo_rules() -> None:
    """Have Dynamo list the functions of torch again, because it may have listed wrappers."""
    rules = _part_of_dynamo("trace_rules")
    if rules is not None:
        rules.clear_lru_cache()


def _dynamo_is_loaded() -> bool:
    return imported_whole("torch._dynamo") is not None


def _part_of_dynamo(name: str) -> Any:
    """Return a module of Dynamo; None until the whole of Dynamo is imported, which another thread may be doing."""
    return sys.modules.get(f"torch._dynamo.{name}") if _dynamo_is_loaded() else None


def _forbids_recompiling(stance: Any) -> bool:
    return getattr(stance, "stance", None) in _FORBIDDING or getattr(stance, "skip_guard_eval_unsafe", False)


RECOMPILE_GUARD = RecompileGuard()


@contextlib.contextmanager
def reporting_versions(thread: ThreadState) -> Iterator[None]:
    """Run code compiled before and code compiled inside in versions that report module calls."""
    try:
        with RECOMPILE_GUARD.with_dynamo(lambda: _reporting(thread)):
            yield
    finally:
        restore_original_call()


@contextlib.contextmanager
def _reporting(thread: ThreadState) -> Iterator[None]:
    if not supported():
        yield
        return
    restore_original_call()
    if not _OPERATORS:
        for function in (enter, leave):
            torch.compiler.allow_in_graph(function)
            torch.fx.node.has_side_effect(function)
        for method in (Collector.module_begin, Quiet.__enter__, Quiet.__exit__):  # the first: every guarded method
            skip_in_dynamo(method, inside=True)
        _OPERATORS.append(define_operators())
    with RECOMPILE_GUARD.in_force(ReportingTable()), unobserved_compiler(thread):
        yield


class ReportingTable:
    """Implements ``Replacement``: the shared table in place of torch's own."""

    def __init__(self) -> None:
        self._content = getattr(hooks, _HOOK_TABLE)

    def apply(self) -> None:
        setattr(hooks, _HOOK_TABLE, shared_table())

    def undo(self) -> None:
        setattr(hooks, _HOOK_TABLE, self._content)


class SharedTable(OrderedDict[int, Any]):
    """A second table of hooks over the content of the first: a change of either is a change of both."""

    def __init__(self, content: OrderedDict[int, Any]) -> None:
        super().__init__()
        self.content = content
        for name in ("get", "items", "keys", "pop", "update", "values"):
            setattr(self, name, getattr(content, name))

    def __len__(self) -> int:
        return len(self.content)

    def __iter__(self) -> Iterator[int]:
        return iter(self.content)

    def __contains__(self, key: object) -> bool:
        return key in self.content

    def __getitem__(self, key: int) -> Any:
        return self.content[key]

    def __setitem__(self, key: int, value: Any) -> None:
        self.content[key] = value

    def __delitem__(self, key: int) -> None:
        del self.content[key]


@functools.cache
def shared_table() -> SharedTable:
    """Return the table that takes the place of torch's own; always the same object."""
    return SharedTable(getattr(hooks, _HOOK_TABLE))


def supported() -> bool:
    """Return whether this torch keeps operators with an effect in order and has the table that versions guard on."""
    return hasattr(torch.library.Library, "_register_effectful_op") and isinstance(
        getattr(hooks, _HOOK_TABLE), OrderedDict
    )


def reported() -> bool:
    """Return whether operators that report are put into the graph that Dynamo traces; an exported program has none."""
    return bool(_OPERATORS) and not _is_exported()


def traced_function(original: Callable[..., Any], number: int, in_place: bool) -> Callable[..., Any]:
    """Return what a compiler reads in place of a function: its calls are reported, unless the program is exported.

    Args:
        original: the function.
        number: by which ``CALLS`` knows it.
        in_place: whether its results are in its arguments.
    """

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if reported():
            return observe_function(original, number, in_place, args, kwargs)
        return original(*args, **kwargs)

    return call


def restore_original_call() -> None:
    """Give Dynamo torch's own ``nn.Module.__call__``: it keeps the one it finds when it is imported, maybe ours."""
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        holder = sys.modules.get(name)
        kept = getattr(holder, "unpatched_nn_module_call", None)
        if kept is not None and hasattr(kept, "__wrapped__"):
            vars(holder)["unpatched_nn_module_call"] = inspect.unwrap(kept)


def skip_in_dynamo(function: Any, inside: bool = False) -> None:
    """Keep Dynamo from compiling calls of ``function`` that it meets outside of any graph; in a graph it traces them.

    Args:
        inside: keep it from compiling what those calls call, too.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip, default = frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip if inside else default))


def outermost(original: Callable[..., Any], observed: Callable[[Slot], Any]) -> Any:
    """Return a function in the place of ``original`` that runs before what records its calls: it may begin an
    iteration, which the call then belongs to, or end one."""
    slot = Slot(original)
    outer: FunctionType = observed(slot)
    functools.update_wrapper(outer, original)
    slot.keep_outermost(outer)
    skip_in_dynamo(outer)
    return outer
