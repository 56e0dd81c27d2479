"""Compute statistics by operators of a device; ``settle`` copies all numbers to the host at once.

Elements are divided by the largest magnitude before they are summed and squared: devices have float32 at most, and
squares can leave its range where the norm does not. Infinities and NaN are found from the extremes. Only operators that
every device has are used. They were tested on a CPU, and not on an Ascend.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import mindspore
from mindspore import ops

from msprobe.core.tensors.dtypes import DType, Kind
from msprobe.core.tensors.statistics import Precision, RawStats, TensorStats, finish

# operators and not functions, because functions of ``ops`` are wrapped while collecting
_abs, _cast, _divide, _greatest, _is_nan = ops.Abs(), ops.Cast(), ops.RealDiv(), ops.Maximum(), ops.IsNan()
_max, _min, _square, _stack, _sum = ops.ReduceMax(), ops.ReduceMin(), ops.Square(), ops.Stack(), ops.ReduceSum()
_stop_gradient = ops.stop_gradient
_MIN_DIVISOR = 1e-30  # for tensors of zeros
_floor, _multiply, _subtract, _concat = ops.FloorDiv(), ops.Mul(), ops.Sub(), ops.Concat()
_HALF = 1 << 16  # float32 holds both halves of an int32 exactly
_MOMENTS, _WHOLE = 6, 10  # numbers of a tensor of floats, and of one of integers or bool


class DeviceStatistics:
    """Statistics that a device is computing, and the nodes that they belong to."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._lock = threading.Lock()
        self._waiting: list[tuple[dict[str, Any], DType, int, Any]] = []

    @property
    def outstanding(self) -> bool:
        return bool(self._waiting)

    def add(self, tensor: Any, dtype: DType, node: dict[str, Any]) -> bool:
        """Start to measure a tensor of at least one element; return False when the host must measure its dtype."""
        if not _is_for_device(dtype):
            return False
        values = _stop_gradient(tensor)
        numbers = _moments(_cast(values, mindspore.float32))
        if dtype.kind is not Kind.FLOAT:  # extremes are exact, which float32 is not
            numbers = _concat((numbers, *_halves(_cast(values, mindspore.int32))))
        with self._lock:
            self._waiting.append((node, dtype, tensor.size, numbers))
        return True

    def settle(self) -> None:
        """Fill in every waiting node, with one copy from the device for all of them."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        numbers = _concat(tuple(entry[3] for entry in waiting)).asnumpy().tolist()
        begin = 0
        for node, dtype, count, _ in waiting:
            end = begin + (_MOMENTS if dtype.kind is Kind.FLOAT else _WHOLE)
            stats = finish(_raw(numbers[begin : begin + _MOMENTS], count), dtype, self._precision)
            if dtype.kind is not Kind.FLOAT:
                stats = _exact(stats, numbers[begin + _MOMENTS : end], dtype)
            node["Max"], node["Min"], node["Mean"], node["Norm"] = stats.max, stats.min, stats.mean, stats.norm
            begin = end


def _is_for_device(dtype: DType) -> bool:
    """Return whether float32 and int32, which every device has, are enough for the statistics of this dtype."""
    if dtype.kind is Kind.FLOAT:
        return dtype.itemsize in (2, 4)
    return dtype.kind is not Kind.COMPLEX and (dtype.itemsize < 4 or dtype.name == "int32")


def _halves(whole: Any) -> tuple[Any, Any]:
    """Return max and min of an int32 tensor as float32 tensors of shape (2,): multiples of 65536, and remainders."""
    extremes = _stack((_max(whole), _min(whole)))
    high = _floor(extremes, _HALF)
    low = _subtract(extremes, _multiply(high, _HALF))
    return _cast(high, mindspore.float32), _cast(low, mindspore.float32)


def _exact(stats: TensorStats, halves: list[float], dtype: DType) -> TensorStats:
    """Return ``stats`` with the exact max and min from ``halves``; a bool tensor has no other statistics."""
    largest, least = (int(halves[index]) * _HALF + int(halves[index + 2]) for index in (0, 1))
    if dtype.kind is Kind.BOOL:
        return TensorStats(bool(largest), bool(least))
    return TensorStats(largest, least, stats.mean, stats.norm)


def _moments(values: Any) -> Any:
    """Return six numbers of a float32 tensor, as a tensor of shape (6,).

    They are max, min, 1 for a NaN, the largest magnitude, and the sums of the elements and of their squares, both after
    division by that magnitude.
    """
    largest, least = _max(values), _min(values)
    magnitude = _greatest(_greatest(_abs(largest), _abs(least)), _MIN_DIVISOR)
    scaled = _divide(values, magnitude)
    nan = _max(_cast(_is_nan(values), mindspore.float32))
    return _stack((largest, least, nan, magnitude, _sum(scaled), _sum(_square(scaled))))


def _raw(row: list[float], count: int) -> RawStats:
    largest, least, nan, magnitude, total, squares = row
    if nan:
        return RawStats(math.nan, math.nan, math.nan, math.nan)
    if math.isinf(magnitude):
        return RawStats(largest, least, largest + least if math.isinf(largest) else least, math.inf)
    return RawStats(largest, least, total / count * magnitude, math.sqrt(squares) * magnitude)
