"""Statistics by operators of a device: the numbers stay on it until ``settle`` copies all of them at once.

Elements are divided by the largest magnitude before they are summed and squared: devices have float32 at most, and
squares leave its range where the norm does not. Infinities and NaN follow from the extremes. Only operators that every
device has are used. They were tried on a CPU, not on an Ascend.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import mindspore
from mindspore import ops

from msprobe.core.tensors.dtypes import DType, DtypeKind
from msprobe.core.tensors.statistics import RAW_NAN, Precision, RawStats, TensorStats, finish, set_statistics

# operators and not functions: those of ``ops`` are wrapped while collecting
_abs, _cast, _divide, _greatest, _is_nan = ops.Abs(), ops.Cast(), ops.RealDiv(), ops.Maximum(), ops.IsNan()
_max, _min, _square, _stack, _sum = ops.ReduceMax(), ops.ReduceMin(), ops.Square(), ops.Stack(), ops.ReduceSum()
_stop_gradient = ops.stop_gradient
_LEAST = 1e-30  # divides zeros
_floor, _multiply, _subtract, _concat = ops.FloorDiv(), ops.Mul(), ops.Sub(), ops.Concat()
_HALF = 1 << 16  # float32 holds both halves of an int32 exactly
_MOMENTS, _WHOLE = 6, 10  # numbers of a tensor of floats, and of one of integers or bool


class DeferredStatistics:
    """Statistics that a device is computing: records to fill, and the device tensors to fill them with."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._lock = threading.Lock()
        self._pending: list[tuple[dict[str, Any], DType, int, Any]] = []

    @property
    def outstanding(self) -> bool:
        """Return whether records wait for ``settle``."""
        return bool(self._pending)

    def add(self, tensor: Any, dtype: DType, node: dict[str, Any]) -> bool:
        """Start to measure a tensor with at least one element; return False for a dtype that the host measures."""
        if not _is_for_device(dtype):
            return False
        values = _stop_gradient(tensor)
        numbers = _moments(_cast(values, mindspore.float32))
        if dtype.kind is not DtypeKind.FLOAT:  # extremes are exact, which float32 is not
            numbers = _concat((numbers, *_halves(_cast(values, mindspore.int32))))
        with self._lock:
            self._pending.append((node, dtype, tensor.size, numbers))
        return True

    def settle(self) -> None:
        """Fill all pending records, with one copy from the device."""
        with self._lock:
            pending, self._pending = self._pending, []
        if not pending:
            return
        numbers = _concat(tuple(entry[3] for entry in pending)).asnumpy().tolist()
        begin = 0
        for node, dtype, count, _ in pending:
            end = begin + (_MOMENTS if dtype.kind is DtypeKind.FLOAT else _WHOLE)
            values = finish(_raw(numbers[begin : begin + _MOMENTS], count), dtype, self._precision)
            if dtype.kind is not DtypeKind.FLOAT:
                values = _exact(values, numbers[begin + _MOMENTS : end], dtype)
            set_statistics(node, values)
            begin = end


def _is_for_device(dtype: DType) -> bool:
    """Return whether float32 and int32, which every device has, hold the values of this dtype exactly enough."""
    if dtype.kind is DtypeKind.FLOAT:
        return dtype.itemsize in (2, 4)
    return dtype.kind is not DtypeKind.COMPLEX and (dtype.itemsize < 4 or dtype.name == "int32")


def _halves(whole: Any) -> tuple[Any, Any]:
    """Return the largest and smallest element of an int32 tensor as multiples of 65536 and remainders, in float32."""
    extremes = _stack((_max(whole), _min(whole)))
    high = _floor(extremes, _HALF)
    low = _subtract(extremes, _multiply(high, _HALF))
    return _cast(high, mindspore.float32), _cast(low, mindspore.float32)


def _exact(values: TensorStats, halves: list[float], dtype: DType) -> TensorStats:
    """Return ``values`` with exact extremes, put together from their halves."""
    largest, least = (int(halves[index]) * _HALF + int(halves[index + 2]) for index in (0, 1))
    if dtype.kind is DtypeKind.BOOL:
        return values._replace(max=bool(largest), min=bool(least))
    return values._replace(max=largest, min=least)


def _moments(values: Any) -> Any:
    """Return the moments of a float32 tensor as a vector on its device.

    They are the largest and smallest element, 1 for a NaN, the largest magnitude, and the sum and the sum of squares of
    the elements divided by that magnitude.
    """
    largest, least = _max(values), _min(values)
    magnitude = _greatest(_greatest(_abs(largest), _abs(least)), _LEAST)
    scaled = _divide(values, magnitude)
    nan = _max(_cast(_is_nan(values), mindspore.float32))
    return _stack((largest, least, nan, magnitude, _sum(scaled), _sum(_square(scaled))))


def _raw(row: list[float], count: int) -> RawStats:
    largest, least, nan, magnitude, total, squares = row
    if nan:
        return RAW_NAN
    if math.isinf(magnitude):
        return RawStats(largest, least, largest + least if math.isinf(largest) else least, math.inf)
    return RawStats(largest, least, total / count * magnitude, math.sqrt(squares) * magnitude)
