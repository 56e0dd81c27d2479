"""A copy of this process that does a part of the work.

``fork`` is safe only where no other thread runs: a lock that one holds stays locked in the copy for ever. The copy
shares what was loaded before, without loading it again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from msprobe.compare.divided.channel import Channel, LostError, lines_in

_TASKS = "/proc/self/task"


def can_fork() -> bool:
    """Whether this process may be copied."""
    try:
        return hasattr(os, "fork") and len(os.listdir(_TASKS)) == 1
    except OSError:  # a system that does not tell
        return False


class Forked:
    """Runs ``work`` in a copy of this process, with the other end of ``channel``. Its files lie in ``folder``."""

    def __init__(self, work: Callable[[Channel], None], folder: Path) -> None:
        lines = lines_in(folder)
        self._process = os.fork()
        if self._process == 0:
            _work(work, Channel(lines, first=False))
        self.channel = Channel(lines, first=True)

    def end(self) -> None:
        """End the copy, whatever it does."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self.channel.close()


def end_now() -> NoReturn:
    """End a copy whose work is done, without freeing object by object what it holds."""
    os._exit(0)


def _work(work: Callable[[Channel], None], channel: Channel) -> None:
    """Never returns: what the caller of ``fork`` would go on with is the parent's."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends this process
        work(channel)
    except LostError:
        pass
    finally:
        os._exit(0)
