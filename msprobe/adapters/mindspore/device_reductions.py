"""Statistics by operators of a device: the numbers stay there until ``settle`` brings all of them in one copy.

Elements are divided by the largest magnitude before they are summed and squared: devices have float32 at most, and
squares leave its range where the norm does not. Infinities and NaN follow from the extremes. Only operators that every
device has are used. They run on a CPU too, which is where they were tried: on an Ascend they were not.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import mindspore
from mindspore import ops

from msprobe.core.tensors.dtypes import DType, Kind
from msprobe.core.tensors.model import Precision, RawStats, TensorStats, finish

# operators and not functions: those of ``ops`` are wrapped while collecting
_abs, _cast, _divide, _greatest, _is_nan = ops.Abs(), ops.Cast(), ops.RealDiv(), ops.Maximum(), ops.IsNan()
_max, _min, _square, _stack, _sum = ops.ReduceMax(), ops.ReduceMin(), ops.Square(), ops.Stack(), ops.ReduceSum()
_stop_gradient = ops.stop_gradient
_LEAST = 1e-30  # divides zeros
_Waiting = tuple[dict[str, Any], DType, int, Any]


class DeviceStatistics:
    """Statistics on their way: nodes to fill, and what they are filled with."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._lock = threading.Lock()
        self._moments: list[_Waiting] = []
        self._extremes: list[_Waiting] = []

    @property
    def outstanding(self) -> bool:
        return bool(self._moments or self._extremes)

    def add(self, tensor: Any, dtype: DType, node: dict[str, Any]) -> bool:
        """Start to measure a tensor of at least one element. False when it is of a dtype for the host."""
        if dtype.kind is Kind.COMPLEX or dtype.itemsize == 8 or (dtype.kind is Kind.FLOAT and dtype.itemsize == 1):
            return False
        values = _stop_gradient(tensor)
        moments = _moments(_cast(values, mindspore.float32))
        if dtype.kind is Kind.FLOAT:
            extremes = None
        else:  # exact, which float32 is not
            whole = _cast(values, mindspore.int32)
            extremes = _stack((_max(whole), _min(whole)))
        with self._lock:
            self._moments.append((node, dtype, tensor.size, moments))
            if extremes is not None:
                self._extremes.append((node, dtype, tensor.size, extremes))
        return True

    def settle(self) -> None:
        """Fill in every node that waits."""
        with self._lock:
            moments, self._moments = self._moments, []
            extremes, self._extremes = self._extremes, []
        for (node, dtype, count, _), row in zip(moments, _rows(moments), strict=True):
            found = finish(_raw(row, count), dtype, self._precision)
            node["Max"], node["Min"], node["Mean"], node["Norm"] = found.max, found.min, found.mean, found.norm
        for (node, dtype, _, _), (largest, least) in zip(extremes, _rows(extremes), strict=True):
            if dtype.kind is Kind.BOOL:
                found = TensorStats(bool(largest), bool(least))
                node["Max"], node["Min"], node["Mean"], node["Norm"] = found.max, found.min, found.mean, found.norm
            else:
                node["Max"], node["Min"] = int(largest), int(least)


def _moments(values: Any) -> Any:
    """Of a float32 tensor: largest, least, 1 for a NaN, magnitude, sum and squares of the elements divided by it."""
    largest, least = _max(values), _min(values)
    magnitude = _greatest(_greatest(_abs(largest), _abs(least)), _LEAST)
    scaled = _divide(values, magnitude)
    nan = _max(_cast(_is_nan(values), mindspore.float32))
    return _stack((largest, least, nan, magnitude, _sum(scaled), _sum(_square(scaled))))


def _rows(waiting: list[_Waiting]) -> list[list[float]]:
    return _stack(tuple(entry[3] for entry in waiting)).asnumpy().tolist() if waiting else []


def _raw(row: list[float], count: int) -> RawStats:
    largest, least, nan, magnitude, total, squares = row
    if nan:
        return RawStats(math.nan, math.nan, math.nan, math.nan)
    if math.isinf(magnitude):
        return RawStats(largest, least, largest + least if math.isinf(largest) else least, math.inf)
    return RawStats(largest, least, total / count * magnitude, math.sqrt(squares) * magnitude)
