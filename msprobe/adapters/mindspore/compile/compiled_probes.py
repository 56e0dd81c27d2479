"""Functions that are compiled into a static graph to send the tensors of a cell, in the language of the graph compiler.

A tapped cell (``GraphCode``) reports that a call of it begins, and gets the number of the call. Everything that is sent
carries that number, gradients too. Nothing is computed with what is sent, so results and gradients do not change.

``GradientProbe`` is an operator that passes a value on in a graph, and sends its gradient with the call that it belongs
to. It uses the name of ``InsertGradientOf``, which the compiler removes from a graph after gradients are computed, so
that it costs no kernel. Its input is a tuple: the value, and what the gradient is sent with. A cell with a ``bprop``
would do the same, but under ``ms.jit`` its second call overwrites what the gradient of the first one needs (MindSpore
2.10 then computes other gradients without a warning).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore
from mindspore import ops
from mindspore.ops._grad_experimental.grad_base import bprop_getters

from msprobe.adapters.mindspore.compile.value_transport import GraphSender

_FLOATS = (mindspore.float16, mindspore.float32, mindspore.float64, mindspore.bfloat16)
_DTYPES = (
    *_FLOATS,
    *(mindspore.int8, mindspore.int16, mindspore.int32, mindspore.int64, mindspore.bool_),
    *(mindspore.uint8, mindspore.uint16, mindspore.uint32, mindspore.uint64),
    *(mindspore.complex64, mindspore.complex128),
)
_Code = Callable[..., Any]


class GraphCode:
    """Makes the tapped ``construct`` of cells.

    Args:
        sender: brings values out of the graph.
        place: returns the constant of a place while the graph is compiled. Its arguments are the phase, the section,
            whether the tensor has no dimension, and the path.
        tapped: which tensors are sent.
    """

    def __init__(self, sender: GraphSender, place: _Code, tapped: TappedTensors) -> None:
        self._sender, self._place, self._tapped = sender, place, tapped
        self._back = GradientProbe(sender.send_back, sender.blank)
        self._tap_input, self._tap_output = self._input_tap(), self._output_tap()

    def construct(self, cell: Any, number: int, parameters: tuple[tuple[str, Any], ...]) -> _Code:
        """Return the ``construct`` of ``cell`` with taps.

        Args:
            cell: the cell.
            number: stands for the cell in what is sent.
            parameters: the cell's own parameters by name.
        """
        original = cell.construct
        tap_input, tap_output = self._tap_input, self._tap_output
        keys, values = tuple(key for key, _ in parameters), tuple(value for _, value in parameters)
        scalars = tuple(len(value.shape) == 0 for value in values)
        begin, send, end = self._sender.begin, self._sender.send, self._sender.end
        site, place, outputs = self._sender.place(number), self._place, self._tapped.outputs

        def construct(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = begin(_first((args, tuple(kwargs.values())), site), site)
            positional = ()
            for position in range(len(args)):
                tapped = tap_input(args[position], call, "input_args", (position,), (position,))
                positional = positional + (tapped,)  # type: ignore[assignment]  # noqa: RUF005
            named = {}
            for key, value in kwargs.items():
                named[key] = tap_input(value, call, "input_kwargs", (key,), (len(args), key))
            result = original(*positional, **named)
            if isinstance(result, tuple):
                results = ()
                for position in range(len(result)):
                    results = results + (tap_output(result[position], call, (position,)),)  # type: ignore[assignment]  # noqa: RUF005
                result = results
            else:
                result = tap_output(result, call, (0,))
            if outputs:
                for position in range(len(values)):
                    if sendable(values[position]):
                        at = place("forward", "parameters", scalars[position], keys[position])
                        result = _after(result, send(flat(ops.stop_gradient(values[position])), at, call))
            return _after(result, end(_first(result, site), call))

        bound: _Code = construct.__get__(cell, type(cell))
        return bound

    def parameter_gradient(self, number: int, key: str, scalar: bool) -> _Code:
        """Return a hook for a parameter's gradient. It belongs to no call: its place holds the number of the cell."""
        send, place, site = self._sender.send_back, self._place, self._sender.place(number)

        def hook(gradient: Any) -> Any:
            if not sendable(gradient):
                return gradient
            return ops.depend(gradient, send(flat(gradient), place("parameters_grad", "", scalar, key, number), site))

        return hook

    def _input_tap(self) -> _Code:
        send, place, back = self._sender.send, self._place, self._back
        forward, backward = self._tapped.inputs, self._tapped.grad_inputs

        def tap_input(value: Any, call: Any, section: Any, path: Any, back_path: Any) -> Any:
            if isinstance(value, mindspore.Tensor):
                scalar = len(value.shape) == 0
                value = ops.depend(value, call)
                if forward and sendable(value):
                    at = place("forward", section, scalar, *path)
                    value = ops.depend(value, send(flat(ops.stop_gradient(value)), at, call))
                if backward and _has_gradient(value):
                    at = place("backward", "output", scalar, *back_path)
                    value = back((value, at, call))[0]
                return value
            if isinstance(value, (tuple, list)):
                parts = ()
                for position in range(len(value)):
                    tapped = tap_input(value[position], call, section, path + (position,), back_path + (position,))  # noqa: RUF005
                    parts = parts + (tapped,)  # type: ignore[assignment]  # noqa: RUF005
                return parts if isinstance(value, tuple) else list(parts)
            return value

        return tap_input

    def _output_tap(self) -> _Code:
        send, place, back = self._sender.send, self._place, self._back
        forward, backward = self._tapped.outputs, self._tapped.grad_outputs

        def tap_output(value: Any, call: Any, path: Any) -> Any:
            if isinstance(value, mindspore.Tensor):
                scalar = len(value.shape) == 0
                if forward and sendable(value):
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
                    tapped = tap_output(value[position], call, path + (position,))  # noqa: RUF005
                    parts = parts + (tapped,)  # type: ignore[assignment]  # noqa: RUF005
                return parts if isinstance(value, tuple) else list(parts)
            return value

        return tap_output


@dataclass(frozen=True, slots=True)
class TappedTensors:
    """Which tensors of a cell are tapped: inputs and outputs of its calls, and of their backward."""

    inputs: bool
    outputs: bool
    grad_outputs: bool
    grad_inputs: bool


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


def _has_gradient(value: Any) -> Any:
    return value.dtype in _FLOATS and sendable(value)


def sendable(value: Any) -> Any:
    """Return whether the graph can send this tensor: not an empty one, and not a bfloat16 without dimension."""
    if value.dtype not in _DTYPES or 0 in value.shape:
        return False
    return len(value.shape) > 0 or value.dtype != mindspore.bfloat16


def _first(value: Any, otherwise: Any) -> Any:
    """Return the first tensor in ``value`` that can be sent, in the form for sending."""
    if isinstance(value, mindspore.Tensor):
        return flat(ops.stop_gradient(value)) if sendable(value) else otherwise
    if isinstance(value, (tuple, list)):
        for part in value:
            tensor = _first(part, None)
            if tensor is not None:
                return tensor
    return otherwise


def _after(result: Any, sent: Any) -> Any:
    """Return ``result`` with tensors that depend on what was sent, so that it is sent before they are used."""
    if isinstance(result, mindspore.Tensor):
        return ops.depend(result, sent)
    if isinstance(result, tuple):
        parts = ()
        for part in result:
            parts = parts + (_after(part, sent),)  # type: ignore[assignment]  # noqa: RUF005
        return parts
    return result
