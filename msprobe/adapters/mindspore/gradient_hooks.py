"""The hooks that the gradients of one call arrive at: they gather them over its nodes and tell the receiver.

Thousands of calls wait for their gradients at a time, so what waits is made of few objects: each more of them brings
the garbage collector closer, which walks the whole program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore
from mindspore import Tensor

from msprobe.adapters.mindspore.bfloat16_values import widened
from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.shield import shielded

Outputs = list[tuple[int, int]]
"""Which output of a node is which output of the call."""

Fed = dict[int, int]
"""Which input of a node is which slot of the call's arguments."""


class OneNode:
    """The usual case: one node made the only output, and it alone feeds arguments.

    Args:
        number: which of the node's outputs it is.
        fed: the node's inputs that are arguments; ``after`` is to be registered only where there are any.
    """

    __slots__ = ("_fed", "_number", "_receiver", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, number: int, fed: Fed) -> None:
        self._receiver = receiver
        self._thread = thread
        self._number = number
        self._fed = fed

    def before(self, grad_outputs: Any) -> None:
        thread = self._thread
        busy, thread.busy = thread.busy, True
        try:
            self._receiver.grad_output(0, _at(grad_outputs, self._number))
            if not self._fed:
                self._receiver.grad_inputs({})
        finally:
            thread.busy = busy

    def after(self, grad_inputs: Any, grad_outputs: Any) -> None:
        thread = self._thread
        busy, thread.busy = thread.busy, True
        try:
            gradients: dict[int, Any] = {}
            _collect(self._receiver, self._fed, grad_inputs, gradients)
            self._receiver.grad_inputs(gradients)
        finally:
            thread.busy = busy


class ManyNodes:
    """Collects the gradients of one call over the nodes it made, and reports when the last one is there."""

    __slots__ = ("_feeding", "_gradients", "_outputs_left", "_pending", "_receiver", "_targets", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, feeding: set[int], targets: int) -> None:
        self._receiver = receiver
        self._thread = thread
        self._feeding = feeding
        self._targets = targets
        self._reset()

    def before(self, outputs: Outputs, through: Fed) -> Callable[[Any], None]:
        """The hook for a node that made outputs: its incoming gradients, and arguments returned unchanged."""

        def hook(grad_outputs: Any) -> None:
            with self._thread.quiet():
                for number, position in outputs:
                    self._receiver.grad_output(position, _at(grad_outputs, number))
                _collect(self._receiver, through, grad_outputs, self._gradients)
                self._outputs_left -= 1
                if not self._pending and self._outputs_left <= 0:
                    self._report()

        return hook

    def after(self, node: int, fed: Fed) -> Callable[[Any, Any], None]:
        """The hook for a node that feeds arguments."""

        def hook(grad_inputs: Any, grad_outputs: Any) -> None:
            with self._thread.quiet():
                _collect(self._receiver, fed, grad_inputs, self._gradients)
                self._pending.discard(node)
                if not self._pending:
                    self._report()

        return hook

    def _report(self) -> None:
        gradients = self._gradients
        self._reset()
        self._receiver.grad_inputs(gradients)

    def _reset(self) -> None:
        self._gradients: dict[int, Any] = {}
        self._pending = set(self._feeding)
        self._outputs_left = self._targets


def _collect(receiver: GradientReceiver, slots: Fed, arrived: Any, gradients: dict[int, Any]) -> None:
    """Add what arrived at a node to the gradients of the arguments."""
    for number, slot in slots.items():
        gradient = _at(arrived, number)
        if gradient is not None:
            earlier = gradients.get(slot)
            gradients[slot] = gradient if earlier is None else _sum(receiver, earlier, gradient)


def _at(values: Any, index: int) -> Any:
    if type(values) is not tuple and not isinstance(values, (tuple, list)):
        return values if index == 0 else None
    return values[index] if index < len(values) else None


@shielded
def _sum(receiver: GradientReceiver, earlier: Any, gradient: Any) -> Any:
    """None, with a note at the receiver's, when the two cannot be added."""
    if gradient.dtype == mindspore.bfloat16:
        return Tensor(widened(earlier) + widened(gradient), gradient.dtype)
    return Tensor(earlier.asnumpy() + gradient.asnumpy(), gradient.dtype)
