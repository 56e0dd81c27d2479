"""The usual case of a call's gradients: one node made the only output and feeds every argument."""

from __future__ import annotations

from typing import Any

from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.call_gradients import Slots


class SingleHook:
    """The hook for that node."""

    __slots__ = ("_receiver", "_slots", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, slots: Slots) -> None:
        self._receiver = receiver
        self._thread = thread
        self._slots = slots

    def __call__(self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        thread = self._thread
        busy, thread.busy = thread.busy, True
        try:
            count = len(grad_inputs)
            gradients = {slot: grad_inputs[index] if index < count else None for index, slot in self._slots}
            self._receiver.whole(grad_outputs[:1], gradients)
        finally:
            thread.busy = busy
