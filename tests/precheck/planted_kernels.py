"""Wrong kernels, planted into ATen for all dtypes but float64, in which the golden call computes.

A planted kernel calls the variant of its operator that writes into a given tensor, which stays right, and damages its
result in numpy, so that no other planted kernel is called on the way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Tensor = torch.Tensor
Floats = NDArray[np.float64]
_DIGITS = {torch.float32: 6, torch.float16: 3, torch.bfloat16: 2}
"""Binary digits that ``coarse`` leaves; float32 has 24, the others 11 and 8."""


def _coarse(values: Floats, digits: int) -> Floats:
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**digits) / 2.0**digits, exponent))


def _at_largest(factor: float) -> Callable[[Floats], Floats]:
    def damage(values: Floats) -> Floats:
        flat = values.ravel()
        flat[np.nan_to_num(np.abs(flat), nan=0.0, posinf=0.0).argmax()] *= factor
        return flat.reshape(values.shape)

    return damage


def _last_dropped(values: Floats) -> Floats:
    values.ravel()[-1] = 0.0
    return values


DAMAGES: dict[str, Callable[[Floats], Floats]] = {
    "scale": lambda values: values * 1.06,
    "one element": _at_largest(1.5),
    "sign": _at_largest(-1.0),
    "NaN": _at_largest(float("nan")),
    "infinity": _at_largest(float("inf")),
    "shift": lambda values: np.roll(values.ravel(), 1).reshape(values.shape),
    "last element": _last_dropped,
    "zero": np.zeros_like,
}
KINDS = (*DAMAGES, "coarse", "low precision")
"""``coarse`` rounds the result, ``low precision`` what the kernel is given."""

_GRADIENTS = ["gelu", "tanh", "sigmoid", "silu", "elu", "leaky_relu", "threshold", "softplus", "avg_pool2d"]
_OUTS = {
    **{f"{name}_backward": "grad_input" for name in _GRADIENTS},
    "_softmax_backward_data": "out",
    "add.Tensor": "out", "mul.Tensor": "out", "sub.Tensor": "out", "div.Tensor": "out", "mean.dim": "out",
    "sum.dim_IntList": "IntList_out", "pow.Tensor_Scalar": "Tensor_Scalar_out",
}  # fmt: skip
_FORWARD = """
exp tanh sigmoid mul.Tensor add.Tensor sub.Tensor div.Tensor rsqrt sqrt log sin cos erf pow.Tensor_Scalar gelu silu
leaky_relu elu softplus sum.dim_IntList mean.dim amax cumsum _softmax _log_softmax mm addmm bmm avg_pool2d
upsample_bilinear2d maximum index_select gather _softmax_backward_data _log_softmax_backward_data
"""
OPERATORS = (*_FORWARD.split(), *(f"{name}_backward" for name in _GRADIENTS))


class PlantedKernel:
    """The kernel of an operator, with a kind of damage."""

    def __init__(self, operator: str, kind: str) -> None:
        self.operator, self._kind = operator, kind
        packet = getattr(torch.ops.aten, operator.partition(".")[0])
        self._original = getattr(packet, _OUTS.get(operator, "out"))
        self._out_name = next(each.name for each in self._original._schema.arguments if each.is_out)

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        dtype = kwargs.get("dtype") or next(each.dtype for each in args if isinstance(each, Tensor))
        if dtype not in _DIGITS:
            return self._computed(args, kwargs, dtype)
        if self._kind == "low precision":
            return self._computed(tuple(_coarse_tensor(each) for each in args), kwargs, dtype)
        result = self._computed(args, kwargs, dtype)
        if not result.numel():
            return result
        return _coarse_tensor(result) if self._kind == "coarse" else _changed(result, DAMAGES[self._kind])

    def _computed(self, args: Any, kwargs: Any, dtype: torch.dtype) -> Tensor:
        out = torch.empty(0, dtype=dtype)
        self._original(*args, **kwargs, **{self._out_name: out})
        return out

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the kernel for the block."""
        library = torch.library.Library("aten", "IMPL")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
                library.impl(self.operator, self, "CPU")
            yield
        finally:
            library._destroy()


def _changed(values: Tensor, change: Callable[[Floats], Floats]) -> Tensor:
    with np.errstate(all="ignore"):
        changed = change(values.detach().double().contiguous().numpy().copy())
    return torch.from_numpy(np.ascontiguousarray(changed)).to(values.dtype).reshape(values.shape)


def _coarse_tensor(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.dtype not in _DIGITS:
        return value
    digits = _DIGITS[value.dtype]
    return _changed(value, lambda values: _coarse(values, digits))
