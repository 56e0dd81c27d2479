"""An operator that passes a value on in a graph, and sends its gradient with the call that it belongs to.

It uses the name of ``InsertGradientOf``, which the compiler removes from a graph after gradients are made, so that it
costs no kernel. Its input is a tuple: the value, and what the gradient is sent with. A cell with a ``bprop`` would do
the same, but under ``ms.jit`` its second call overwrites what the gradient of the first one needs (MindSpore 2.10 then
computes other gradients without a warning).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import ops
from mindspore.ops._grad_experimental.grad_base import bprop_getters


class GradientProbe(ops.Primitive):
    """Takes ``(value, place, call)`` and returns a tuple that begins with the value.

    With a second place, ``(value, place, call, spare)``, the value is also sent there when its gradient arrives: a
    graph that computes only gradients leaves out what computes the result, and with it what is sent from there.

    Args:
        send: takes a gradient, the place and the call.
        blank: makes an empty gradient for a place or a call, which have none.
    """

    def __init__(self, send: Callable[..., Any], blank: Callable[..., Any]) -> None:
        super().__init__("InsertGradientOf")
        self.send = send
        self.blank = blank


@bprop_getters.register(GradientProbe)
def gradient_of_probe(self: Any) -> Callable[..., Any]:
    """Return the gradient of the operator, which the compiler reads."""
    send, blank = self.send, self.blank

    def bprop(inputs: Any, out: Any, dout: Any) -> Any:
        gradient = dout[0]
        if len(inputs) == 4:
            gradient = ops.depend(gradient, send(flat(ops.stop_gradient(inputs[0])), inputs[3], inputs[2]))
        gradient = ops.depend(gradient, send(flat(gradient), inputs[1], inputs[2]))
        if len(inputs) == 4:
            return ((gradient, blank(inputs[1]), blank(inputs[2]), blank(inputs[3])),)
        return ((gradient, blank(inputs[1]), blank(inputs[2])),)

    return bprop


def flat(value: Any) -> Any:
    """Return a tensor without dimensions in shape (1,); it would be sent as a number without a dtype."""
    if len(value.shape) == 0:
        return ops.reshape(value, (1,))
    return value
