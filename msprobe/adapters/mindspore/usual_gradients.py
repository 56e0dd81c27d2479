"""Hooks for the usual call: one node made its only output, and the gradients of its arguments leave that node only.

Thousands of calls wait for their gradients at the same time, so few objects are kept for each: more objects would start
the garbage collector more often, which walks the whole program. ``core.dump.call_gradients`` serves all other calls.
"""

from __future__ import annotations

from typing import Any

import mindspore
from mindspore import Tensor

from msprobe.adapters.mindspore.bfloat16_values import widened
from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState, quiet_hook
from msprobe.core.dump.call_gradients import gradient_at
from msprobe.core.dump.shield import shielded

Fed = dict[int, int]
"""The slot of the call's arguments by the input of a node."""


class OneNode:
    """Reports the gradients that pass one node.

    Args:
        receiver: takes the gradients.
        thread: the state of the present thread.
        number: the output of the node that is the output of the call.
        fed: the inputs of the node that are arguments; ``after`` must be registered only when there are any.
    """

    __slots__ = ("_fed", "_number", "_receiver", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, number: int, fed: Fed) -> None:
        self._receiver = receiver
        self._thread = thread
        self._number = number
        self._fed = fed

    @quiet_hook
    def before(self, grad_outputs: Any, others: Any = None) -> None:
        self._receiver.grad_output(0, gradient_at(grad_outputs, self._number))
        if not self._fed:
            self._receiver.grad_inputs({})

    @quiet_hook
    def after(self, grad_inputs: Any, grad_outputs: Any) -> None:
        gradients: dict[int, Any] = {}
        self._collect(grad_inputs, gradients)
        self._receiver.grad_inputs(gradients)

    @property
    def errors(self) -> Any:
        return self._receiver.errors

    @shielded
    def _collect(self, arrived: Any, gradients: dict[int, Any]) -> None:
        for number, slot in self._fed.items():
            gradient = gradient_at(arrived, number)
            if gradient is not None:
                earlier = gradients.get(slot)
                gradients[slot] = gradient if earlier is None else added(earlier, gradient)


def added(earlier: Any, gradient: Any) -> Any:
    """Return the sum of two gradients of one argument, computed on the host and outside of any graph."""
    if gradient.dtype == mindspore.bfloat16:
        return Tensor(widened(earlier) + widened(gradient), gradient.dtype)
    return Tensor(earlier.asnumpy() + gradient.asnumpy(), gradient.dtype)
