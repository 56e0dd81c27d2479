"""SIGTERM and SIGHUP end a command as Ctrl-C does: it cleans up, and the exit status says which signal it was."""

from __future__ import annotations

import os
import signal
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(SystemExit):
    """Raised in the command, so that every ``with`` block is left; ``status`` is the one a shell gives (128 + n)."""

    def __init__(self, number: int) -> None:
        self.status = 128 + number
        super().__init__(self.status)
        self.name = signal.Signals(number).name


def raise_on_termination() -> None:
    """Raise ``Terminated`` in the main thread when such a signal arrives. The main thread must call this.

    A signal that is ignored (nohup) or has a handler already is left alone.
    """
    handled = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _raise_terminated)

    def hold() -> None:  # a signal that arrives before a copy has its own handlers would be lost
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)

    def release_copy() -> None:  # only the parent cleans up
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_copy)


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # `timeout` sends it twice, and the second one must not interrupt the cleanup
    raise Terminated(number)
