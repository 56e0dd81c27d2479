"""Observe communication of a torch-shaped namespace, under PyTorch's prefix ``Distributed``.

Its functions work in place, as PyTorch's do. The output of a record is the positional arguments and then the keyword
values as they are after the call, or after ``wait`` for a call that returns a handle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType

from msprobe.adapters.mindspore.taps.collective_tap import MindSporeCollectiveTap
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState


class MSAdapterCollectiveTap(MindSporeCollectiveTap):
    """Implements ``CollectiveTap``. Functions that the namespace gets later are observed from the next start on.

    Args:
        torch: the torch-shaped namespace.
        names: functions of its ``distributed`` to record; none at a level that records no APIs.
    """

    def __init__(self, torch: ModuleType, names: Sequence[str], current: CurrentObserver, thread: ThreadState) -> None:
        super().__init__({}, current, thread)
        self._torch = torch
        self._names = names
        self._planned: set[str] = set()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._plan_new()
        with super().attach():
            yield

    def _plan_new(self) -> None:
        owner = getattr(self._torch, "distributed", None)
        new = [name for name in ("init_process_group", "P2POp", *self._names) if name not in self._planned]
        for name in new:
            function = getattr(owner, name, None)
            if not callable(function):
                continue
            self._planned.add(name)
            if name == "init_process_group":
                self._patches.plan(owner, name, self._calls.with_rank_notice(function))
            elif isinstance(function, type):
                self._unwrap_operation_arguments(function)
            else:
                self._plan(owner, "Distributed", name, in_place=True)
