"""A program may forbid to compile again: its compiled code then runs as if nothing were collected.

Compiled code depends on the functions it was made with (Dynamo's guards), and where recompiling is an error, meeting
others raises. So whatever stands in their place goes while a thread is in compiled code, and comes back when it leaves
it or calls a part that is excluded from compilation. A program that may compile pays two comparisons for each entry.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from msprobe.core.log import first_time, logger

_ENTRY = "_maybe_set_eval_frame"  # called with what handles new frames, None for nothing, at every entry and exit
_FORBIDDING = ("fail_on_recompile", "eager_on_recompile")


class Replacement(Protocol):
    """Something that stands in the place of something else, and can go and come back any number of times."""

    def apply(self) -> None: ...

    def undo(self) -> None: ...


class Aside:
    """All replacements in force, and how many threads want them gone at the moment.

    ``happened``: whether any had to go since the first of them came.
    """

    def __init__(self) -> None:
        self.happened = False
        self._lock = threading.RLock()
        self._inside = threading.local()
        self._wanted = 0
        self._in_force: list[Replacement] = []
        self._original: Callable[..., Any] | None = None

    @contextlib.contextmanager
    def in_force(self, replacement: Replacement) -> Iterator[None]:
        """``replacement`` is in place inside, except in compiled code that must not be compiled again."""
        with self._lock:
            self._in_force.append(replacement)
            self.watch()
        try:
            with self._lock:
                replacement.apply()
            yield
        finally:
            with self._lock:
                self._in_force.remove(replacement)
                if not self._in_force:
                    self._unwatch()
                replacement.undo()

    def watch(self) -> None:
        """See entries into compiled code from now on, if Dynamo is loaded and something is in force."""
        frames: Any = sys.modules.get("torch._dynamo.eval_frame")
        if self._original is None and self._in_force and hasattr(frames, _ENTRY):
            self.happened = False
            self._original = getattr(frames, _ENTRY)
            setattr(frames, _ENTRY, self._switch(self._original, frames))

    def _unwatch(self) -> None:
        if self._original is not None:
            setattr(sys.modules["torch._dynamo.eval_frame"], _ENTRY, self._original)
        self._original = None
        self._inside, self._wanted = threading.local(), 0

    def _switch(self, original: Any, frames: Any) -> Callable[[Any], Any]:
        config = sys.modules["torch._dynamo.config"]

        @functools.wraps(original)
        def switch(callback: Any) -> Any:
            if callback is None:
                self._tell(inside=False)
            elif config.error_on_recompile or _forbids(frames._stance):
                self._tell(inside=True)
            return original(callback)

        return switch

    def _tell(self, inside: bool) -> None:
        """This thread enters or leaves code that must not see what is in force."""
        if inside is getattr(self._inside, "now", False):
            return
        with self._lock:
            self._inside.now = inside
            self._wanted += 1 if inside else -1
            if inside and self._wanted == 1:
                self._go()
            elif self._wanted == 0:
                for replacement in self._in_force:
                    replacement.apply()

    def _go(self) -> None:
        for replacement in reversed(self._in_force):
            replacement.undo()
        self.happened = True
        if first_time("recompile"):
            logger.warning(
                "calls inside compiled code are not recorded, because this program forbids to compile again "
                "(torch._dynamo.config.error_on_recompile or torch.compiler.set_stance): allow it while collecting"
            )


def _forbids(stance: Any) -> bool:
    return stance.stance in _FORBIDDING or getattr(stance, "skip_guard_eval_unsafe", False)


ASIDE = Aside()
