"""SIGTERM and SIGHUP end a command as Ctrl-C does: what it began is tidied up, and the status says which it was."""

from __future__ import annotations

import os
import signal
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(SystemExit):
    """Raised where the command is, so that every ``with`` is left; ``status`` is the one a shell gives (128 + n)."""

    def __init__(self, number: int) -> None:
        self.status = 128 + number
        super().__init__(self.status)
        self.name = signal.Signals(number).name


def end_tidily() -> None:
    """Raise ``Terminated`` in the main thread, which must call this, when such a signal comes.

    A signal that is ignored (nohup) or has a handler already stays as it is.
    """
    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _end)

    def hold() -> None:  # what comes before a copy has its own handlers would be lost
        signal.pthread_sigmask(signal.SIG_BLOCK, taken)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, taken)

    def release_copy() -> None:  # what is begun is not the copy's to tidy up
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_copy)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # `timeout` sends it twice, and tidying up must not be cut short
    raise Terminated(number)
