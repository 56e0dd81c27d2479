"""Another device, emulated: every operation below autograd is computed in another order, or rounded otherwise.

``Device("order")`` sums in another order, as other kernels do: products of matrices in several parts of the sum, every
other operation in float64, rounded once. ``Device("ulp")`` moves the results of transcendental functions, norms and
softmax by one unit in the last place where a fixed random sequence says so. ``Device("other")`` does both.
``Device("tf32")`` and ``Device("hf32")`` round the operands of products of float32 to 10 and 11 bits of mantissa.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward", "mkldnn_rnn_layer"}
_SUMS = {
    *("sum", "mean", "var", "var_mean", "cumsum", "linalg_vector_norm", "native_layer_norm", "native_batch_norm"),
    *("native_layer_norm_backward", "native_batch_norm_backward", "native_group_norm", "native_group_norm_backward"),
    *("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "nll_loss_forward"),
    *("nll_loss_backward", "embedding_dense_backward", "index_add", "_fused_rms_norm", "_fused_rms_norm_backward"),
    *("avg_pool2d", "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "mse_loss"),
    *("_scaled_dot_product_flash_attention_for_cpu", "upsample_bilinear2d", "linear", "mse_loss_backward"),
}
_FUNCTIONS = {
    *("exp", "tanh", "rsqrt", "sqrt", "log", "sigmoid", "erf", "gelu", "silu", "gelu_backward", "silu_backward"),
    *("tanh_backward", "sigmoid_backward", "sin", "cos", "pow", "reciprocal", "div", "_softmax", "_log_softmax"),
    *("native_layer_norm", "native_group_norm", "softplus", "log1p", "expm1", "exp2", "_fused_rms_norm"),
}
_BITS = {"tf32": 10, "hf32": 11}


class Device(TorchDispatchMode):
    """Computes what runs inside of its block as another device would."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._random = torch.Generator().manual_seed(11)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, function.overloadpacket.__name__
        if self._kind in _BITS and name in _PRODUCTS:
            args = tree_map(lambda value: _rounded(value, _BITS[self._kind]), args)
        elif self._kind in ("order", "other"):
            if name in ("mm", "bmm", "addmm", "baddbmm"):
                return _in_parts(name, args, kwargs)
            if name in _SUMS or name == "convolution":
                return _in_double(function, args, kwargs)
        result = function(*args, **kwargs)
        if self._kind in ("ulp", "other") and name in _FUNCTIONS:
            return tree_map(self._moved, result)
        return result

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        steps = aten.randint.low_generator(-1, 2, value.shape, generator=self._random, dtype=torch.float64)
        factor = aten.add.Scalar(aten.mul.Scalar(steps, 1.01 * torch.finfo(value.dtype).eps / 2), 1.0)
        return _as(aten.mul.Tensor(_as(value, torch.float64), factor), value.dtype)


def _as(value: Tensor, dtype: torch.dtype) -> Tensor:
    return aten._to_copy.default(value, dtype=dtype)


def _rounded(value: Any, bits: int) -> Any:
    """Return a tensor of float32 with this many bits of mantissa, rounded to nearest."""
    if not isinstance(value, Tensor) or value.dtype is not torch.float32:
        return value
    # The product is exact up to 2 ** (23 - bits) units, and the subtraction leaves the upper digits.
    large = aten.mul.Scalar(value, 2.0 ** (23 - bits) + 1.0)
    return aten.sub.Tensor(large, aten.sub.Tensor(large, value))


def _in_parts(name: str, args: Any, kwargs: Any) -> Tensor:
    """Return a product of matrices whose sums are made in four parts, last part first, in float32 or better."""
    added, (left, right) = (args[0], args[1:3]) if "add" in name else (None, args[:2])
    dtype, wide = left.dtype, torch.promote_types(left.dtype, torch.float32)
    left, right = _as(left, wide), _as(right, wide)
    length = max(1, -(-left.shape[-1] // 4))
    product = aten.bmm.default if left.dim() == 3 else aten.mm.default
    parts = zip(aten.split.Tensor(left, length, -1), aten.split.Tensor(right, length, -2), strict=True)
    first, *others = [product(a, b) for a, b in reversed(list(parts))]
    for part in others:
        first = aten.add.Tensor(first, part)
    total = aten.mul.Scalar(first, kwargs.get("alpha", 1))
    if added is not None:
        total = aten.add.Tensor(total, aten.mul.Scalar(_as(added, wide), kwargs.get("beta", 1)))
    return _as(total, dtype)


def _in_double(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the results of a function that computes in float64, in the dtypes that they have without it."""
    plain = function(*args, **kwargs)
    try:
        exact = function(*tree_map(_double, args), **kwargs)
    except (RuntimeError, NotImplementedError):
        return plain
    return tree_map(lambda own, wide: _as(wide, own.dtype) if isinstance(own, Tensor) else own, plain, exact)


def _double(value: Any) -> Any:
    return _as(value, torch.float64) if isinstance(value, Tensor) and value.is_floating_point() else value
