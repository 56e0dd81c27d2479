"""Observe the functions that return memory which nobody has written, or write it. They are not recorded by this."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import mindspore
from mindspore import mint, ops

from msprobe.adapters.mindspore.taps.jit_tap import suspend_while_compiled
from msprobe.adapters.mindspore.tensors.unwritten import MAKERS
from msprobe.core.capture.observer import CallSite
from msprobe.core.capture.partial_writes import WRITERS
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.unwritten import UnwrittenMemory, observe_change, observe_maker, observe_writer
from msprobe.core.capture.wrap import bind_like_original, copy_signature

_NO_CHANGES = frozenset({
    "index_of_parent_", "is_", "parent_tensor_", "print_", "requires_grad_", "reshape_", "shape_", "stop_gradient_",
})  # fmt: skip
"""Attributes whose names end like those of functions that work in place."""
_CHANGES = frozenset({"assign", "assign_add", "assign_sub", "assign_value"})
_OPERATORS = frozenset({"__iadd__", "__ifloordiv__", "__imod__", "__imul__", "__isub__", "__itruediv__"})


class MindSporeMemoryTap:
    """Tells ``unwritten`` of the memory that the program gets and writes.

    Args:
        unwritten: knows the memory from then on.
        thread: is busy while an observed function runs, whose memory is its own affair.
    """

    def __init__(self, unwritten: UnwrittenMemory, thread: ThreadState) -> None:
        self._unwritten = unwritten
        self._thread = thread
        self._alone: tuple[Patches, Patches] | None = None

    def plan(self, patches: Patches, recorded: Mapping[str, Collection[str]]) -> None:
        """Add the wrappers to ``patches``; the functions in ``recorded``, by prefix, get theirs from ``inside``."""
        for owner, names in MAKERS.items():
            for name in names:
                if hasattr(owner, name):
                    patches.plan(owner, name, bind_like_original(owner, name, self._observed_maker))
        for prefix, owner in OWNERS.items():
            for name in sorted(set(filter(_writes, dir(owner))) - set(recorded.get(prefix, ()))):
                if callable(getattr(owner, name, None)):
                    observe = functools.partial(self._observed_writer, name)
                    patches.plan(owner, name, bind_like_original(owner, name, observe))

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Observe the functions inside this context, in which no functions are recorded."""
        if self._alone is None:
            self._alone = Patches(), Patches()
            self.plan(self._alone[0], {})
            suspend_while_compiled(self._alone[1], self._alone[0])
        with self._alone[0].in_force(), self._alone[1].in_force():
            yield

    def inside(self, site: CallSite, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what runs in place of ``original`` inside an observed call of it."""
        if site.api in WRITERS:
            return observe_writer(original, site.api, self._unwritten, self._thread.quiet)
        return observe_change(original, self._unwritten, self._thread.quiet) if _writes(site.api) else original

    def _observed_maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        return self._noticing(original, observe_maker(original, self._unwritten, _counts, self._thread.quiet))

    def _observed_writer(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        return self._noticing(original, self.inside(CallSite("", name), original))

    def _noticing(self, original: Callable[..., Any], observed: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs ``observed`` where the program itself calls ``original``."""
        thread = self._thread

        def call(*args: Any, **kwargs: Any) -> Any:
            return (original if thread.busy else observed)(*args, **kwargs)

        copy_signature(call, original)
        return call


OWNERS: Mapping[str, Any] = {
    "Functional": ops,
    "Mint": mint,
    "MintFunctional": mint.nn.functional,
    "Tensor": mindspore.Tensor,
}
"""The owners of functions, by the prefix of their records."""


def _writes(name: str) -> bool:
    """Return whether the function of this name writes its first argument."""
    if name in WRITERS or name in _CHANGES or name in _OPERATORS:
        return True
    return name.endswith("_") and not name.startswith("_") and name not in _NO_CHANGES


def _counts(_args: tuple[Any, ...]) -> bool:
    return True
