"""Observe the functions that return memory which nobody has written. They are not recorded."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced
from msprobe.adapters.pytorch.taps.api_tap import plan_wrapper
from msprobe.adapters.pytorch.taps.distribution import below_distribution
from msprobe.adapters.pytorch.tensors.unwritten import GROWING, MAKERS, UnwrittenMemory
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import Quiet, ThreadState
from msprobe.core.capture.wrap import copy_signature, mark_calling


class TorchMemoryTap:
    """Tells ``unwritten`` of the memory that the program gets.

    Memory that torch gets to spread a model over ranks is left out: collectives write it, of which its version does not
    tell.

    Args:
        unwritten: knows the memory from then on.
        thread: is busy while an observed function runs, whose memory is its own affair.
    """

    def __init__(self, unwritten: UnwrittenMemory, thread: ThreadState) -> None:
        self._unwritten = unwritten
        self._thread = thread
        self._patches = Patches()
        for owner, names in MAKERS.items():
            for name in names:
                if hasattr(owner, name):
                    plan_wrapper(self._patches, owner, name, self._observed)

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Do nothing: these calls have no numbers."""

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        thread, unwritten = self._thread, self._unwritten

        def made(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not is_traced() and not thread.busy and not below_distribution():
                with Quiet(thread), torch._C.DisableTorchFunction():
                    unwritten.add(result)
            return result

        copy_signature(made, original)
        return made


def inside_calls(
    unwritten: UnwrittenMemory, thread: ThreadState, operators: bool
) -> Callable[[CallSite, Callable[..., Any]], Callable[..., Any]]:
    """Return what makes, of an original function, the function that runs inside an observed call.

    Args:
        unwritten: is told of the memory of tensors that grow.
        thread: is marked while the function runs.
        operators: whether the operators inside a call are recorded too.
    """

    def inside(site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        if site.api in GROWING:
            original = _growing(original, unwritten)
        return mark_calling(original, thread, is_traced) if operators else original

    return inside


def _growing(original: Callable[..., Any], unwritten: UnwrittenMemory) -> Callable[..., Any]:
    """Return ``original`` so that its result is known as unwritten where the tensor was, or had no memory."""

    @functools.wraps(original)
    def grown(*args: Any, **kwargs: Any) -> Any:
        written = not args or unwritten.is_written(args[0])
        result = original(*args, **kwargs)
        if not written:
            unwritten.add(result)
        return result

    return grown
