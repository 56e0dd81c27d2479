"""What is compiled into a static graph to see the tensors of a cell: written in the language of the graph compiler.

A tapped cell says that a call of it begins, and gets the number of the call. Everything that is sent has that number
with it, gradients too. Nothing is computed with what is sent, so results and gradients stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore
from mindspore import ops

from msprobe.adapters.mindspore.graph_gradient import GradientProbe, flat
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


class GraphCode:
    """Makes the tapped ``construct`` of cells.

    Args:
        sender: brings values out of the graph.
        place: gives a place its constant while the graph is compiled: phase, section, scalar?, then the path.
    """

    def __init__(self, sender: GraphSender, place: _Code, wanted: Wanted) -> None:
        self._sender, self._place, self._wanted = sender, place, wanted
        self._back = GradientProbe(sender.send_back, sender.blank)
        self._given, self._made = self._taps_of_inputs(), self._taps_of_outputs()

    def construct(self, cell: Any, number: int, parameters: tuple[tuple[str, Any], ...]) -> _Code:
        """The ``construct`` of ``cell`` with taps; ``number`` stands for the cell, ``parameters`` are its own."""
        original = cell.construct
        given, made = self._given, self._made
        keys, values = tuple(key for key, _ in parameters), tuple(value for _, value in parameters)
        scalars = tuple(len(value.shape) == 0 for value in values)
        begin, send, end = self._sender.begin, self._sender.send, self._sender.end
        site, place, outputs = self._sender.place(number), self._place, self._wanted.outputs

        def construct(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = begin(_first((args, tuple(kwargs.values())), site), site)
            positional = ()
            for position in range(len(args)):
                one = given(args[position], call, "input_args", (position,), (position,))
                positional = positional + (one,)  # type: ignore[assignment]  # noqa: RUF005
            named = {}
            for key, value in kwargs.items():
                named[key] = given(value, call, "input_kwargs", (key,), (len(args), key))
            result = original(*positional, **named)
            if isinstance(result, tuple):
                made_all = ()
                for position in range(len(result)):
                    made_all = made_all + (made(result[position], call, (position,)),)  # type: ignore[assignment]  # noqa: RUF005
                result = made_all
            else:
                result = made(result, call, (0,))
            if outputs:
                for position in range(len(values)):
                    if _sendable(values[position]):
                        at = place("forward", "parameters", scalars[position], keys[position])
                        result = _after(result, send(flat(ops.stop_gradient(values[position])), at, call))
            return _after(result, end(_first(result, site), call))

        bound: _Code = construct.__get__(cell, type(cell))
        return bound

    def parameter_gradient(self, number: int, key: str, scalar: bool) -> _Code:
        """A hook for a parameter's gradient, which belongs to no call: the number of its cell is in the place."""
        send, place, site = self._sender.send_back, self._place, self._sender.place(number)

        def hook(gradient: Any) -> Any:
            if not _sendable(gradient):
                return gradient
            return ops.depend(gradient, send(flat(gradient), place("parameters_grad", "", scalar, key, number), site))

        return hook

    def _taps_of_inputs(self) -> _Code:
        send, place, back = self._sender.send, self._place, self._back
        forward, backward = self._wanted.inputs, self._wanted.grad_inputs

        def given(value: Any, call: Any, section: Any, path: Any, back_path: Any) -> Any:
            if isinstance(value, mindspore.Tensor):
                scalar = len(value.shape) == 0
                value = ops.depend(value, call)
                if forward and _sendable(value):
                    at = place("forward", section, scalar, *path)
                    value = ops.depend(value, send(flat(ops.stop_gradient(value)), at, call))
                if backward and _has_gradient(value):
                    at = place("backward", "output", scalar, *back_path)
                    value = back((value, at, call))[0]
                return value
            if isinstance(value, (tuple, list)):
                parts = ()
                for position in range(len(value)):
                    one = given(value[position], call, section, path + (position,), back_path + (position,))  # noqa: RUF005
                    parts = parts + (one,)  # type: ignore[assignment]  # noqa: RUF005
                return parts if isinstance(value, tuple) else list(parts)
            return value

        return given

    def _taps_of_outputs(self) -> _Code:
        send, place, back = self._sender.send, self._place, self._back
        forward, backward = self._wanted.outputs, self._wanted.grad_outputs

        def made(value: Any, call: Any, path: Any) -> Any:
            if isinstance(value, mindspore.Tensor):
                scalar = len(value.shape) == 0
                if forward and _sendable(value):
                    at = place("forward", "output", scalar, *path)
                    value = ops.depend(value, send(flat(ops.stop_gradient(value)), at, call))
                if backward and _has_gradient(value):
                    at = place("backward", "input", scalar, *path)
                    if forward:
                        value = back((value, at, call, place("spare", "output", scalar, *path)))[0]
                    else:
                        value = back((value, at, call))[0]
                return value
            if isinstance(value, (tuple, list)):
                parts = ()
                for position in range(len(value)):
                    one = made(value[position], call, path + (position,))  # noqa: RUF005
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


def _first(value: Any, otherwise: Any) -> Any:
    """The first tensor in ``value`` that can be sent, ready for it."""
    if isinstance(value, mindspore.Tensor):
        return flat(ops.stop_gradient(value)) if _sendable(value) else otherwise
    if isinstance(value, (tuple, list)):
        for part in value:
            found = _first(part, None)
            if found is not None:
                return found
    return otherwise


def _after(result: Any, sent: Any) -> Any:
    """``result``, once something was sent; hung on its tensors."""
    if isinstance(result, mindspore.Tensor):
        return ops.depend(result, sent)
    if isinstance(result, tuple):
        parts = ()
        for part in result:
            parts = parts + (_after(part, sent),)  # type: ignore[assignment]  # noqa: RUF005
        return parts
    return result
