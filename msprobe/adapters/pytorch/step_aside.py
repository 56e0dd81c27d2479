"""One switch between compiled code and the functions that the tool has put in the place of torch's own.

Compiled code depends on the functions it was made with (Dynamo's guards). Three things follow, and ``RecompileGuard``
sees to all of them for every replacement that is in force:

- A program may forbid to compile again. Where recompiling is an error, meeting other functions raises. So the
  replacements are taken away while a thread is in compiled code, and come back when it leaves that code or calls a
  part that is excluded from compilation. A program that may compile pays two comparisons for each entry.
- Dynamo lists the functions of torch by identity. It must list the originals, so it does that before the first
  replacement, and its list is made anew when it was loaded in between.
- Importing Dynamo takes seconds. It is imported when the program first calls ``torch.compile``, with the originals in
  place; what must be prepared for compiled code is prepared then.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from msprobe.core.capture.patch import Patches
from msprobe.core.log import first_time, logger

_ENTRY = "_maybe_set_eval_frame"  # called with what handles new frames, None for nothing, at every entry and exit
_FORBIDDING = ("fail_on_recompile", "eager_on_recompile")

Prepare = Callable[[], AbstractContextManager[None]]


class Replacement(Protocol):
    """Something that stands in the place of something else, and can be put there and taken away any number of times."""

    def apply(self) -> None: ...

    def undo(self) -> None: ...


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
        with self._lock:
            if not self._in_force:
                self._originals_listed = register_originals()
            self._in_force.append(replacement)
            self._watch_entries()
        try:
            with self._lock:
                replacement.apply()
            yield
        finally:
            with self._lock:
                self._in_force.remove(replacement)
                if not self._in_force:
                    self._unwatch_entries()
                replacement.undo()
                if not self._in_force and not self._originals_listed:
                    clear_dynamo_rules()

    @contextlib.contextmanager
    def with_dynamo(self, prepare: Prepare) -> Iterator[None]:
        """Enter the context that ``prepare`` returns now if Dynamo is loaded, else when ``torch.compile`` is called.

        It is left at the end of this one.
        """
        with contextlib.ExitStack() as entered:
            entered.callback(self._stop_waiting, entered)
            with self._lock:
                if _dynamo_is_loaded():
                    entered.enter_context(prepare())
                else:
                    self._waiting[entered] = prepare
                    self._watch_compile()
            yield

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
                    importlib.import_module("torch._dynamo")
                    register_originals()
                finally:
                    self._apply_all()
            self._watch_entries()
            for entered, prepare in waiting.items():
                entered.enter_context(prepare())

    def _watch_entries(self) -> None:
        """See entries into compiled code from now on, if Dynamo is loaded and something is in force."""
        frames: Any = sys.modules.get("torch._dynamo.eval_frame")
        if self._entry_before is None and self._in_force and hasattr(frames, _ENTRY):
            self.suspended = False
            self._entry_before = getattr(frames, _ENTRY)
            setattr(frames, _ENTRY, self._observed_entry(self._entry_before, frames))

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
            elif config.error_on_recompile or _forbids_recompiling(frames._stance):
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


def register_originals() -> bool:
    """Have Dynamo list the functions of torch by identity now, while nothing is wrapped; False if it is not loaded."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules.get_torch_obj_rule_map()
    return rules is not None


def clear_dynamo_rules() -> None:
    """Have Dynamo list the functions of torch again, because it may have listed wrappers."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules.clear_lru_cache()


def _dynamo_is_loaded() -> bool:
    return "torch._dynamo" in sys.modules


def _forbids_recompiling(stance: Any) -> bool:
    return stance.stance in _FORBIDDING or getattr(stance, "skip_guard_eval_unsafe", False)


RECOMPILE_GUARD = RecompileGuard()
