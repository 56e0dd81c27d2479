"""Which threads compute and clear gradients: a thread reads the gradients of parameters only while no other does.

Autograd writes ``parameter.grad`` without the interpreter's lock, and clearing it frees its memory. A thread that looks
at the gradients of another one may get a tensor that is being freed, and the process dies.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

import torch

_graph_task = torch._C._current_graph_task_id


class GradientThreads:
    """The threads of this process that have computed or cleared gradients."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of a signal may interrupt the thread that holds it
        self._threads: set[int] = set()

    def note(self) -> None:
        """Note that this thread is about to compute or clear gradients; wait while another thread reads them.

        A pass inside of another pass runs for the thread that began the outer one.
        """
        thread = threading.get_ident()
        if thread not in self._threads and _graph_task() == -1:
            with self._lock:
                self._threads.add(thread)

    @contextlib.contextmanager
    def sole(self) -> Iterator[bool]:
        """Let no other thread begin with gradients inside; yield whether no other one that lives has done so."""
        with self._lock:
            others = self._threads - {threading.get_ident()}
            if others:
                living = others & sys._current_frames().keys()
                self._threads -= others - living
                others = living
            yield not others
