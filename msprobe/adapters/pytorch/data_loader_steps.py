"""Steps that data loaders count: each batch of the training is one step, without start, stop and step in the script.

    PrecisionDebugger("config.json", model=model)      # with "enable_dataloader": true; or, for any configuration:
    enable_dataloader(model)

A step begins when a batch has been fetched, and ends when the next one is asked for, or when there is none. The first
loader that is iterated counts the steps. While another one is iterated (an evaluation), nothing is recorded; the
training goes on with its next batch. Only ``torch.utils.data.DataLoader.__iter__`` is replaced, and put back when the
debugger or its steps have come to an end.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from msprobe.core.capture.patching import Patches
from msprobe.core.dump.session import process_debugger
from msprobe.core.errors import MsprobeException
from msprobe.core.interruption import let_through
from msprobe.core.log import logger


def follow(debugger: Any) -> LoaderSteps:
    """Let data loaders start and end the steps of the debugger of this process.

    Args:
        debugger: the class ``PrecisionDebugger``.

    Returns:
        What ends it: ``close()``, or the end of a ``with`` block.

    Raises:
        MsprobeException: there is no debugger.
    """
    session = process_debugger.current()
    steps = _of_session.get(session)
    if steps is None or steps.closed:
        steps = _of_session[session] = LoaderSteps(session, debugger)
        steps.open()
    return steps


_of_session: weakref.WeakKeyDictionary[Any, LoaderSteps] = weakref.WeakKeyDictionary()


class LoaderSteps:
    """The steps of one session. No error in here reaches the program."""

    def __init__(self, session: Any, debugger: Any) -> None:
        self._debugger = debugger
        self._session = weakref.ref(session)
        self._process = os.getpid()
        self._patches = Patches()
        self._counting: weakref.ref[Any] | None = None
        self._number = 0
        self._running = False
        self._pending = False  # a step has begun, and has not been ended
        self.closed = False

    def open(self) -> None:
        """Replace the iterators of data loaders."""
        self._patches.plan(DataLoader, "__iter__", self._observed(DataLoader.__iter__))
        self._patches.apply()

    def close(self) -> None:
        """End the step that is open, and put back what was replaced."""
        if self.closed:
            return
        self.end_step()
        self._leave()

    def __enter__(self) -> LoaderSteps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def counts(self, loader: Any) -> bool:
        """Return whether the batches of a loader are the steps: those of the first one that is iterated."""
        if self._counting is None or self._counting() is None:
            self._counting = weakref.ref(loader)
        return self._counting() is loader

    def begin_step(self) -> None:
        """Start collecting, for the batch that has been fetched."""
        session = self._session()
        if self._is_mine() and session is not None:
            self._number = session.current_step
            self._call(self._debugger.start)
            self._running = self._pending = not self.closed

    def pause(self) -> None:
        """Record nothing of another loader's batches."""
        if self._running and self._is_mine():
            self._running = False
            self._call(self._debugger.stop)

    def end_step(self) -> None:
        """End the step, if one is open; after the last one that is wanted, put everything back."""
        if not self._is_mine() or not self._pending:
            return
        self.pause()
        self._pending = False
        session = self._session()
        if session is None or session.current_step != self._number:  # the script has called step() itself
            return
        self._call(self._debugger.step)
        wanted = session.config.step
        if wanted and wanted.last < session.current_step:
            self._leave()

    def _observed(self, original: Any) -> Any:
        @functools.wraps(original)
        def iterate(loader: Any) -> Any:
            iterator = original(loader)
            if self.closed or os.getpid() != self._process:
                return iterator
            return CountedIterator(iterator, self, self.counts(loader))

        return iterate

    def _is_mine(self) -> bool:
        """Return whether the debugger is still that of this object, in this process."""
        if self.closed or os.getpid() != self._process:
            return False
        if process_debugger.peek() is not self._session():
            self._leave()
            return False
        return True

    def _call(self, method: Any) -> None:
        try:
            method()
        except (MsprobeException, OSError) as error:
            let_through(error)
            logger.error("enable_dataloader: nothing more is collected: %s", error)
            self._leave()

    def _leave(self) -> None:
        self.closed = True
        self._running = self._pending = False
        self._patches.undo()


class CountedIterator:
    """An iterator of a data loader that tells when a batch is asked for; everything else is the original's."""

    def __init__(self, iterator: Iterator[Any], steps: LoaderSteps, counts: bool) -> None:
        self._msprobe_iterator = iterator
        self._msprobe_steps = steps
        self._msprobe_counts = counts

    def __iter__(self) -> CountedIterator:
        return self

    def __next__(self) -> Any:
        steps = self._msprobe_steps
        if not self._msprobe_counts:
            steps.pause()
            return next(self._msprobe_iterator)
        steps.end_step()
        batch = next(self._msprobe_iterator)
        steps.begin_step()
        return batch

    def __len__(self) -> int:
        return len(self._msprobe_iterator)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_msprobe_iterator"), name)
