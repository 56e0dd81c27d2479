"""Statistics and checksums of numpy arrays: the definition every other backend is tested against.

The code is straightforward rather than fast and needs bounded memory: an array of any size and layout is read in chunks
of 65536 elements, which are widened to float64. An array of a dtype that numpy lacks is passed as raw bits with the
name of the dtype: `statistics(bits, "bfloat16")`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import COMPLEX128, FLOAT64, DType, DtypeKind, find_dtype, float8_values
from msprobe.core.tensors.statistics import NO_STATS, RAW_NAN, Precision, RawStats, TensorMeta, TensorStats, finish

_CHUNK_ELEMENTS = 1 << 16


def meta(array: NDArray[Any], requires_grad: bool | None = None) -> TensorMeta:
    """Return type, dtype and shape of a numpy array."""
    return TensorMeta("numpy.ndarray", str(array.dtype), tuple(array.shape), requires_grad)


def statistics(array: NDArray[Any], dtype: str | None = None, precision: Precision = "low") -> TensorStats:
    """Return the statistics of all elements, as `core.tensors.statistics` defines them.

    An empty array and elements without an order (strings, dates, Python objects, records) have no statistics.

    Args:
        array: elements in any shape and layout.
        dtype: the name of the element type when the array holds raw bits.
        precision: to what mean and norm are rounded.

    Raises:
        ValueError: `dtype` is unknown, or the array is not a container for it.
    """
    array = np.asarray(array)
    element = _element_type(array, dtype)
    if element is None or array.size == 0:
        return NO_STATS
    bits = array.view(element.container) if _is_raw(array, element, dtype) else array
    with np.errstate(all="ignore"):
        if element.kind in (DtypeKind.BOOL, DtypeKind.INT):
            raw = _integer_stats(bits)
        else:
            raw = _float_stats(bits, element)
    return finish(raw, element, precision)


def magnitude(real: NDArray[np.float64], imaginary: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return abs(z) of complex numbers, element by element, without overflow of the squares."""
    return np.asarray(np.hypot(real, imaginary), np.float64)


def rounded(values: NDArray[np.float64], dtype: DType) -> NDArray[np.float64]:
    """Return the finite floats of `dtype` nearest to finite values, ties to even; integers and bool as they are."""
    if not dtype.digits:
        return values
    unit = np.ldexp(1.0, np.maximum(np.frexp(values)[1], -900) - dtype.digits)
    unit = np.maximum(unit, dtype.finest)
    return np.asarray(np.clip(np.rint(values / unit) * unit, -dtype.largest, dtype.largest))


def decode(bits: NDArray[Any], dtype: DType) -> NDArray[np.float64]:
    """Return elements of `dtype` as float64, complex ones as magnitudes, from an array of that dtype or of raw bits."""
    with np.errstate(all="ignore"):  # a signalling NaN is data here, not a warning
        return _decode(bits, dtype)


def _decode(bits: NDArray[Any], dtype: DType) -> NDArray[np.float64]:
    if dtype.name == "bfloat16" and bits.dtype.kind == "u":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype.itemsize == 1 and not dtype.is_native and bits.dtype.kind == "u":
        return np.take(_float8_table(dtype), bits)
    if dtype.name == "complex32":
        parts = np.ascontiguousarray(bits).view(np.float16).astype(np.float64)
        return magnitude(parts[..., 0::2], parts[..., 1::2])
    if dtype.kind is DtypeKind.COMPLEX:
        return magnitude(bits.real.astype(np.float64), bits.imag.astype(np.float64))
    return bits.astype(np.float64)


@cache
def _float8_table(dtype: DType) -> NDArray[np.float64]:
    return np.array(float8_values(dtype))


def _element_type(array: NDArray[Any], name: str | None) -> DType | None:
    """Return the neutral dtype of the elements; None when they have no statistics."""
    if name is None:
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            return FLOAT64
        if array.dtype.kind == "c" and array.dtype.itemsize > 16:
            return COMPLEX128
        return find_dtype(array.dtype.name)
    element = find_dtype(name)
    if element is None:
        raise ValueError(f"dtype: {name!r} is not a known element type")
    if element.itemsize != array.dtype.itemsize:
        raise ValueError(
            f"dtype: {name} has {element.itemsize} bytes per element, the array of {array.dtype} {array.dtype.itemsize}"
        )
    return element


def _is_raw(array: NDArray[Any], element: DType, name: str | None) -> bool:
    """Return whether the array holds raw bits: numpy lacks the dtype, or the caller names another dtype."""
    return not element.is_native or (name is not None and array.dtype.name != element.name)


def _chunks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield all elements, in memory order, as one-dimensional arrays."""
    if array.flags.forc:
        array = array.ravel(order="K")
        for start in range(0, array.size, _CHUNK_ELEMENTS):
            yield array[start : start + _CHUNK_ELEMENTS]
        return
    for start in range(0, array.size, _CHUNK_ELEMENTS):
        yield array.flat[start : start + _CHUNK_ELEMENTS]


def _integer_stats(array: NDArray[Any]) -> RawStats:
    sums, squares = [], []
    for chunk in _chunks(array):
        values = chunk.astype(np.float64)
        sums.append(float(values.sum()))
        squares.append(float(np.square(values).sum()))
    if array.size == 1:
        return RawStats(array.item(), array.item(), sums[0], abs(sums[0]))
    return RawStats(array.max().item(), array.min().item(), math.fsum(sums) / array.size, math.sqrt(math.fsum(squares)))


def _float_stats(array: NDArray[Any], dtype: DType) -> RawStats:
    largest, least = -math.inf, math.inf
    for chunk in _chunks(array):
        values = decode(chunk, dtype)
        largest, least = max(largest, float(values.max())), min(least, float(values.min()))
        if math.isnan(values.max()):
            return RAW_NAN
    exponent = _scale_exponent(largest, least)
    sums, squares = [], []
    for chunk in _chunks(array):
        values = np.ldexp(decode(chunk, dtype), -exponent)
        sums.append(float(values.sum()))
        squares.append(float(np.square(values).sum()))
    mean, norm = _add(sums) / array.size, math.sqrt(_add(squares))
    if array.size == 1:
        norm = abs(sums[0])
    return RawStats(largest, least, _scale(mean, exponent), _scale(norm, exponent))


def _scale_exponent(largest: float, least: float) -> int:
    """Return the exponent of a power of two by which elements are divided so that squares stay in the range of float64.

    It is 0 when the squares stay in the range anyway.
    """
    exponent = math.frexp(max(abs(largest), abs(least)))[1]
    if not math.isfinite(largest) or not math.isfinite(least) or abs(exponent) < 400:
        return 0
    return max(exponent, -1000)


def _scale(value: float, exponent: int) -> float:
    return float(np.ldexp(value, exponent)) if exponent else value


def _add(values: list[float]) -> float:
    """Return the exact sum; infinities are added by IEEE rules, which fsum does not do."""
    finite = all(map(math.isfinite, values))
    return math.fsum(values) if finite else float(np.sum(values))
