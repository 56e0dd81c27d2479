"""Other devices, emulated: the same operations with other kernels, which round otherwise.

The kernels of the CPU are replaced below the dispatcher, where neither the program nor the debugger sees them. They use
functions of torch as they were at import, so that nothing of theirs is recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

_CHUNK = 5
_NUDGED = 3
_ATEN = torch.ops.aten
_copied = _ATEN._to_copy.default
_detached = _ATEN.detach.default
_from_numpy = torch.from_numpy
_to_numpy = Tensor.numpy
_contiguous = Tensor.contiguous
_Array = Any


def _array(x: Tensor, dtype: torch.dtype = torch.float32) -> _Array:
    return _to_numpy(_contiguous(_copied(_detached(x), dtype=dtype)))


def _tensor(values: _Array, dtype: torch.dtype) -> Tensor:
    return _copied(_from_numpy(np.ascontiguousarray(values).reshape(values.shape)), dtype=dtype)


def _product(a: _Array, b: _Array) -> _Array:
    """The product of float32 arrays, summed in chunks from the end, as another device might."""
    starts = reversed(range(0, a.shape[-1], _CHUNK))
    return reduce(np.add, (np.matmul(a[..., s : s + _CHUNK], b[..., s : s + _CHUNK, :]) for s in starts))


def _mm(a: Tensor, b: Tensor) -> Tensor:
    return _tensor(_product(_array(a), _array(b)), a.dtype)


def _addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = _product(_array(a), _array(b)) * np.float32(alpha)
    return _tensor(product + _array(bias) * np.float32(beta) if beta else product, a.dtype)


def _nudged(exact: _Array, dtype: torch.dtype) -> Tensor:
    """Round float64 values to ``dtype``, of three elements one to the neighbour above and one to that below."""
    rounded = _tensor(exact, dtype)
    result = _array(rounded, torch.float64)
    places = np.arange(result.size).reshape(result.shape) % _NUDGED
    usable = np.isfinite(result) & (result != 0)
    for place, towards in enumerate((np.inf, -np.inf)):
        limit = _ATEN.full_like.default(rounded, towards)
        neighbour = _array(_ATEN.nextafter.default(rounded, limit), torch.float64)
        result = np.where(usable & np.isfinite(neighbour) & (places == place), neighbour, result)
    return _tensor(result, dtype)


def _rounded_otherwise(function: Callable[[_Array], _Array]) -> Callable[[Tensor], Tensor]:
    def kernel(x: Tensor) -> Tensor:
        with np.errstate(all="ignore"):
            return _nudged(function(_array(x, torch.float64)), x.dtype)

    return kernel


def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    values = _array(x, torch.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(values - values.max(axis=dim, keepdims=True))
    return _nudged(powers / powers.sum(axis=dim, keepdims=True), x.dtype)


PRODUCTS: dict[str, Callable[..., Tensor]] = {"mm": _mm, "bmm": _mm, "addmm": _addmm}
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "exp": _rounded_otherwise(np.exp),
    "tanh": _rounded_otherwise(np.tanh),
    "rsqrt": _rounded_otherwise(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _rounded_otherwise(lambda x: 1 / (1 + np.exp(-x))),
    "_softmax": _softmax,
}
DEVICES: dict[str, dict[str, Callable[..., Tensor]]] = {
    "products": PRODUCTS,
    "functions": FUNCTIONS,
    "both": {**PRODUCTS, **FUNCTIONS},
}
"""Name -> operations with kernels of another device."""


@contextmanager
def emulated(device: str) -> Iterator[None]:
    """Run the operations of the CPU with the kernels of ``device``; "" leaves them as they are."""
    if not device:
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, kernel in DEVICES[device].items():
            library.impl(name, kernel, "CPU")
    try:
        yield
    finally:
        library._destroy()
