"""Observe the functions that return memory which nobody has written, or write a part of it. They are not recorded."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.recompilation import RECOMPILE_GUARD, is_traced
from msprobe.adapters.pytorch.taps.api_tap import plan_wrapper
from msprobe.adapters.pytorch.taps.distribution import below_distribution
from msprobe.adapters.pytorch.tensors.transforms import outside_transforms
from msprobe.adapters.pytorch.tensors.unwritten import COPIERS, GROWING, MAKERS
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.partial_writes import WRITERS
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import Quiet, ThreadState
from msprobe.core.capture.unwritten import UnwrittenMemory, observe_copier, observe_maker, observe_writer
from msprobe.core.capture.wrap import copy_signature, mark_calling


class TorchMemoryTap:
    """Tells ``unwritten`` of the memory that the program gets.

    Memory that torch gets to spread a model over ranks is left out: collectives write it, of which its version does not
    tell.

    Args:
        unwritten: knows the memory from then on.
        thread: is busy while an observed function runs, whose memory is its own affair.
        recorded: the methods of tensors that are recorded, which ``inside_calls`` sees.
    """

    def __init__(self, unwritten: UnwrittenMemory, thread: ThreadState, recorded: Collection[str]) -> None:
        self._unwritten = unwritten
        self._thread = thread
        self._patches = Patches()
        for owner, names in MAKERS.items():
            for name in names:
                if hasattr(owner, name):
                    plan_wrapper(self._patches, owner, name, self._observed)
        for owner, names in COPIERS.items():
            for name in names:
                plan_wrapper(self._patches, owner, name, self._copying)
        for name in sorted(WRITERS.keys() - set(recorded)):
            plan_wrapper(self._patches, torch.Tensor, name, functools.partial(self._writing, name))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        with RECOMPILE_GUARD.in_force(self._patches):
            yield

    def reset(self) -> None:
        """Do nothing: these calls have no numbers."""

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        copies = _copies if original.__name__ == "new" else _never_copies

        def counts(args: tuple[Any, ...]) -> bool:
            return not below_distribution() and not copies(args)

        return self._noticing(original, observe_maker(original, self._unwritten, counts, unseen(self._thread)))

    def _writing(self, api: str, original: Callable[..., Any]) -> Callable[..., Any]:
        return self._noticing(original, observe_writer(original, api, self._unwritten, unseen(self._thread)))

    def _copying(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return self._noticing(
            original, observe_copier(original, self._unwritten, unseen(self._thread), self._thread.quiet)
        )

    def _noticing(self, original: Callable[..., Any], observed: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs ``observed`` where the program itself calls ``original``."""
        thread = self._thread

        def call(*args: Any, **kwargs: Any) -> Any:
            return (original if is_traced() or thread.busy else observed)(*args, **kwargs)

        copy_signature(call, original)
        return call


def unseen(thread: ThreadState) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes the surroundings in which the tool looks at memory: nothing of the user sees its calls."""

    @contextlib.contextmanager
    def surroundings() -> Iterator[None]:
        with Quiet(thread), torch._C.DisableTorchFunction(), outside_transforms():
            yield

    return surroundings


def _copies(args: tuple[Any, ...]) -> bool:
    """Return whether ``Tensor.new`` with these arguments copies numbers instead of getting memory of some size."""
    return not all(type(size) in (int, torch.Size) for size in args[1:])


def _never_copies(_args: tuple[Any, ...]) -> bool:
    return False


def inside_calls(
    unwritten: UnwrittenMemory, thread: ThreadState, operators: bool
) -> Callable[[CallSite, Callable[..., Any]], Callable[..., Any]]:
    """Return what makes, of an original function, the function that runs inside an observed call.

    Args:
        unwritten: knows the memory of tensors that grow or are written in part.
        thread: is marked while the function runs.
        operators: whether the operators inside a call are recorded too.
    """

    def inside(site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        if site.api in GROWING:
            original = _growing(original, unwritten)
        elif site.api in WRITERS:
            original = observe_writer(original, site.api, unwritten, unseen(thread))
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
