"""The hook of the usual call: one node made the only output and feeds every argument."""

from __future__ import annotations

from typing import Any

from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState, quiet_hook
from msprobe.core.dump.call_gradients import Slots


class SingleHook:
    """Report all gradients of a call at once when its only node has run."""

    __slots__ = ("_receiver", "_slots", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, slots: Slots) -> None:
        self._receiver = receiver
        self._thread = thread
        self._slots = slots

    @quiet_hook
    def __call__(self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        count = len(grad_inputs)
        gradients = {slot: grad_inputs[index] if index < count else None for index, slot in self._slots}
        self._receiver.whole(grad_outputs[:1], gradients)
