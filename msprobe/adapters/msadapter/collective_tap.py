"""Communication of a torch-shaped namespace, under PyTorch's prefix ``Distributed``.

Its functions work in place, as PyTorch's do: the output of a record is the positional arguments and then the keyword
values as they are afterwards; for a call that hands out a handle, after its ``wait``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import ModuleType

from msprobe.adapters.mindspore.collective_tap import MindSporeCollectiveTap
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState


class MSAdapterCollectiveTap(MindSporeCollectiveTap):
    """Implements ``CollectiveTap``. What the namespace brings later is planned at the next start.

    Args:
        torch: the torch-shaped namespace.
        names: functions of its ``distributed`` to record; none at a level that records no APIs.
    """

    def __init__(self, torch: ModuleType, names: Sequence[str], relay: Relay, thread: ThreadState) -> None:
        super().__init__({}, relay, thread)
        self._torch = torch
        self._names = names
        self._done: set[str] = set()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        self._look()
        with super().attach():
            yield

    def _look(self) -> None:
        owner = getattr(self._torch, "distributed", None)
        new = [name for name in ("init_process_group", "P2POp", *self._names) if name not in self._done]
        for name in new:
            found = getattr(owner, name, None)
            if not callable(found):
                continue
            self._done.add(name)
            if name == "init_process_group":
                self._patches.plan(owner, name, self._calls.with_rank_notice(found))
            elif isinstance(found, type):
                self._let_operations_know(found)
            else:
                self._plan(owner, "Distributed", name, in_place=True)
