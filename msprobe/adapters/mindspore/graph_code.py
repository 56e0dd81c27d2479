"""What is compiled into a static graph to see the tensors of a cell: written in the language of the graph compiler.

Values leave the graph through ``send``, which gives back what ``depend`` can wait for. Nothing is computed with them,
so results and gradients stay what they are. Gradients are met in the ``bprop`` of a cell that otherwise does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore
from mindspore import nn, ops

from msprobe.adapters.mindspore.graph_sender import GraphSender

_FLOATS = (mindspore.float16, mindspore.float32, mindspore.float64, mindspore.bfloat16)
_KINDS = (
    *_FLOATS,
    *(mindspore.int8, mindspore.int16, mindspore.int32, mindspore.int64, mindspore.bool_),
    *(mindspore.uint8, mindspore.uint16, mindspore.uint32, mindspore.uint64),
    *(mindspore.complex64, mindspore.complex128),
)
_Code = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tensors of a cell are tapped: inputs and outputs of its calls, and of their backward."""

    inputs: bool
    outputs: bool
    grad_outputs: bool
    grad_inputs: bool


class _Back(nn.Cell):
    """Hands its input on, and sends the gradient that comes back."""

    def __init__(self, send: _Code, blank: _Code) -> None:
        super().__init__()
        self.send = send
        self.blank = blank

    def construct(self, value: Any, place: Any) -> Any:
        return value

    def bprop(self, value: Any, place: Any, out: Any, dout: Any) -> Any:
        return ops.depend(dout, self.send(_flat(dout), place)), self.blank(place)


class _BackAndAgain(nn.Cell):
    """Sends the value itself too when a gradient comes back: its forward tap is gone where nobody needs the value."""

    def __init__(self, send: _Code, blank: _Code) -> None:
        super().__init__()
        self.send = send
        self.blank = blank

    def construct(self, value: Any, place: Any, spare: Any) -> Any:
        return value

    def bprop(self, value: Any, place: Any, spare: Any, out: Any, dout: Any) -> Any:
        again = ops.depend(dout, self.send(_flat(ops.stop_gradient(value)), spare))
        return ops.depend(again, self.send(_flat(dout), place)), self.blank(place), self.blank(spare)


class GraphCode:
    """Makes the tapped ``construct`` of cells.

    Args:
        sender: brings values out of the graph.
        place: gives a place its constant while the graph is compiled: phase, section, cell, scalar?, then the path.
    """

    def __init__(self, sender: GraphSender, place: _Code, wanted: Wanted) -> None:
        self._send, self._place, self._wanted = sender.send, place, wanted
        self._back = _Back(sender.send, sender.blank)
        self._again = _BackAndAgain(sender.send, sender.blank)

    def construct(self, cell: Any, number: int, parameters: tuple[tuple[str, Any], ...]) -> _Code:
        """The ``construct`` of ``cell`` with taps; ``number`` stands for the cell, ``parameters`` are its own."""
        original = cell.construct
        given, made = self._given(number), self._made(number)
        keys, values = tuple(key for key, _ in parameters), tuple(value for _, value in parameters)
        scalars = tuple(len(value.shape) == 0 for value in values)
        send, place, outputs = self._send, self._place, self._wanted.outputs

        def construct(self: Any, *args: Any, **kwargs: Any) -> Any:
            positional = ()
            for position in range(len(args)):
                one = given(args[position], "input_args", (position,), (position,))
                positional = positional + (one,)  # type: ignore[assignment]  # noqa: RUF005
            named = {}
            for key, value in kwargs.items():
                named[key] = given(value, "input_kwargs", (key,), (len(args), key))
            result = original(*positional, **named)
            if isinstance(result, tuple):
                made_all = ()
                for position in range(len(result)):
                    made_all = made_all + (made(result[position], (position,)),)  # type: ignore[assignment]  # noqa: RUF005
                result = made_all
            else:
                result = made(result, (0,))
            if outputs:
                for position in range(len(values)):
                    if _sendable(values[position]):
                        at = place("forward", "parameters", number, scalars[position], keys[position])
                        result = _after(result, send(_flat(ops.stop_gradient(values[position])), at))
            return result

        bound: _Code = construct.__get__(cell, type(cell))
        return bound

    def parameter_gradient(self, number: int, key: str, scalar: bool) -> _Code:
        """A hook for a parameter's gradient."""
        send, place = self._send, self._place

        def hook(gradient: Any) -> Any:
            if not _sendable(gradient):
                return gradient
            return ops.depend(gradient, send(_flat(gradient), place("parameters_grad", "", number, scalar, key)))

        return hook

    def _given(self, number: int) -> _Code:
        send, place, back = self._send, self._place, self._back
        forward, backward = self._wanted.inputs, self._wanted.grad_inputs

        def given(value: Any, section: Any, path: Any, back_path: Any) -> Any:
            if isinstance(value, mindspore.Tensor):
                scalar = len(value.shape) == 0
                if forward and _sendable(value):
                    at = place("forward", section, number, scalar, *path)
                    value = ops.depend(value, send(_flat(ops.stop_gradient(value)), at))
                if backward and _has_gradient(value):
                    value = back(value, place("backward", "output", number, scalar, *back_path))
                return value
            if isinstance(value, (tuple, list)):
                parts = ()
                for position in range(len(value)):
                    one = given(value[position], section, path + (position,), back_path + (position,))  # noqa: RUF005
                    parts = parts + (one,)  # type: ignore[assignment]  # noqa: RUF005
                return parts if isinstance(value, tuple) else list(parts)
            return value

        return given

    def _made(self, number: int) -> _Code:
        send, place, back, again = self._send, self._place, self._back, self._again
        forward, backward = self._wanted.outputs, self._wanted.grad_outputs

        def made(value: Any, path: Any) -> Any:
            if isinstance(value, mindspore.Tensor):
                scalar = len(value.shape) == 0
                if forward and _sendable(value):
                    at = place("forward", "output", number, scalar, *path)
                    value = ops.depend(value, send(_flat(ops.stop_gradient(value)), at))
                if backward and _has_gradient(value):
                    at = place("backward", "input", number, scalar, *path)
                    if forward:
                        value = again(value, at, place("spare", "output", number, scalar, *path))
                    else:
                        value = back(value, at)
                return value
            if isinstance(value, (tuple, list)):
                parts = ()
                for position in range(len(value)):
                    one = made(value[position], path + (position,))  # noqa: RUF005
                    parts = parts + (one,)  # type: ignore[assignment]  # noqa: RUF005
                return parts if isinstance(value, tuple) else list(parts)
            return value

        return made


def _has_gradient(value: Any) -> Any:
    return value.dtype in _FLOATS and _sendable(value)


def _sendable(value: Any) -> Any:
    """Whether the graph can hand this tensor over: not when it is empty, nor a bfloat16 without dimension."""
    if value.dtype not in _KINDS or 0 in value.shape:
        return False
    return len(value.shape) > 0 or value.dtype != mindspore.bfloat16


def _flat(value: Any) -> Any:
    """A tensor without dimension would arrive as a number without a dtype."""
    if len(value.shape) == 0:
        return ops.reshape(value, (1,))
    return value


def _after(result: Any, sent: Any) -> Any:
    """``result``, once something was sent; hung on its first tensor."""
    if isinstance(result, mindspore.Tensor):
        return ops.depend(result, sent)
    if isinstance(result, tuple):
        parts = ()
        done = False
        for position in range(len(result)):
            part = result[position]
            if not done and isinstance(part, mindspore.Tensor):
                part = ops.depend(part, sent)
                done = True
            parts = parts + (part,)  # type: ignore[assignment]  # noqa: RUF005
        return parts
    return result
