"""The changes with which a call runs again: the modes of task ``free_benchmark``.

improve_precision, to_cpu    all 16-bit floats as float32
add_noise                    a constant is added to the larger elements of the first floating-point tensor
bit_noise                    the last bit of its elements is flipped
change_value                 its first and last elements change places
no_change                    nothing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.backend.replaying import Constant, HeldTensor, PreparedCall, mapped
from msprobe.numerics.published.perturbed_ratio import NOISE

Array = NDArray[Any]
_HALF = ("float16", "bfloat16")
_CHANGED = (*_HALF, "float32", "float64")
_BITS: Mapping[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_SMALLEST_NORMAL: Mapping[str, float] = {"float16": 2.0**-14, "float64": 2.0**-1022}


def perturbed(call: PreparedCall, mode: str) -> PreparedCall | None:
    """Return the call as a mode changes it; None where it has nothing to change."""
    kwargs = {key: Constant("plain", False) if key == "inplace" else value for key, value in call.kwargs.items()}
    call = replace(call, kwargs=kwargs)
    if mode == "no_change":
        return call
    if mode in ("improve_precision", "to_cpu"):
        return _in_float32(call)
    return _first_changed(call, {"add_noise": noisy, "bit_noise": flipped, "change_value": exchanged}[mode])


def _in_float32(call: PreparedCall) -> PreparedCall | None:
    def wide(argument: HeldTensor | Constant) -> HeldTensor | Constant:
        if isinstance(argument, HeldTensor) and argument.dtype in _HALF:
            return replace(argument, values=argument.values.astype(np.float32), dtype="float32")
        if isinstance(argument, Constant) and argument.kind == "dtype" and argument.value in _HALF:
            return replace(argument, value="float32")
        return argument

    args, kwargs = mapped(list(call.args), wide), mapped(dict(call.kwargs), wide)
    gradients = [None if each is None else wide(each) for each in call.gradients]
    kept = [each if isinstance(each, HeldTensor) else None for each in gradients]
    return replace(call, args=args, kwargs=kwargs, gradients=kept, autocast="")


def _first_changed(call: PreparedCall, change: Callable[[Array, str], Array | None]) -> PreparedCall | None:
    done: list[bool] = []

    def first(argument: HeldTensor | Constant) -> HeldTensor | Constant:
        if done or not isinstance(argument, HeldTensor):
            return argument
        if argument.dtype not in _CHANGED or not argument.values.size:
            return argument
        values = change(argument.values, argument.dtype)
        done.append(values is not None)
        return argument if values is None else replace(argument, values=values)

    changed = replace(call, args=mapped(list(call.args), first))
    return changed if done and done[0] else None


def noisy(values: Array, dtype: str) -> Array | None:
    """Return the elements with the noise of their dtype; None where all are smaller than it."""
    noise = NOISE.get(dtype, NOISE["float32"])
    size = np.abs(values)
    if not float(np.max(size[np.isfinite(size)], initial=0.0)) >= noise:
        return None
    return np.where(size > np.sqrt(noise), values + values.dtype.type(noise), values).astype(values.dtype)


def flipped(values: Array, dtype: str) -> Array | None:
    """Return the elements with their last bit flipped, where they are normal numbers."""
    bits = values.astype(values.dtype, copy=True).reshape(values.shape)
    last = _BITS[values.dtype.itemsize](0x10000 if dtype == "bfloat16" else 1)  # bfloat16 is held as float32
    normal = np.isfinite(values) & (np.abs(values) > _SMALLEST_NORMAL.get(dtype, 2.0**-126))
    if not normal.any():
        return None
    raw = bits.view(last.dtype)
    raw[normal] ^= last
    return bits


def exchanged(values: Array, dtype: str) -> Array | None:
    """Return the elements, the first and the last one in each other's place; of three dimensions and more the first
    and the last row."""
    if values.size < 2:
        return None
    swapped = values.copy()
    first, last = ((0,), (-1,)) if values.ndim == 1 else ((0, 0), (-1, -1))
    swapped[first], swapped[last] = values[last], values[first]
    return swapped
