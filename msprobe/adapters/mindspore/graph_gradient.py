"""An operator that hands a value on in a graph, and sends the gradient that comes back with the call it belongs to.

It borrows the name of ``InsertGradientOf``, which the compiler takes out of a graph once gradients are made, and so
costs no kernel. Its input is a tuple: the value, and what the gradient is to be sent with. A cell with a ``bprop``
would do the same, but under ``ms.jit`` its second call overwrites what the gradient of the first one needs
(MindSpore 2.10: other gradients without a word).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import ops
from mindspore.ops._grad_experimental.grad_base import bprop_getters


class GradientProbe(ops.Primitive):
    """Called with ``(value, place, call)``, gives back a tuple that begins with the value.

    With a second place, ``(value, place, call, spare)``, the value is sent there too when its gradient comes: a graph
    that needs gradients only leaves out what computes the result, and with it what was sent from there.

    Args:
        send: takes a gradient, the place and the call.
        blank: makes the gradient of a place or a call, which have none.
    """

    def __init__(self, send: Callable[..., Any], blank: Callable[..., Any]) -> None:
        super().__init__("InsertGradientOf")
        self.send = send
        self.blank = blank


@bprop_getters.register(GradientProbe)
def gradient_of_probe(self: Any) -> Callable[..., Any]:
    """What the compiler reads as the gradient of the operator."""
    send, blank = self.send, self.blank

    def bprop(given: Any, out: Any, dout: Any) -> Any:
        gradient = dout[0]
        if len(given) == 4:
            gradient = ops.depend(gradient, send(flat(ops.stop_gradient(given[0])), given[3], given[2]))
        gradient = ops.depend(gradient, send(flat(gradient), given[1], given[2]))
        if len(given) == 4:
            return ((gradient, blank(given[1]), blank(given[2]), blank(given[3])),)
        return ((gradient, blank(given[1]), blank(given[2])),)

    return bprop


def flat(value: Any) -> Any:
    """A tensor without dimension would arrive as a number without a dtype."""
    if len(value.shape) == 0:
        return ops.reshape(value, (1,))
    return value
