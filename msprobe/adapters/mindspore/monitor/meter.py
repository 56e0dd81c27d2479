"""Measures tensors for the monitor: the statistics of collection, and counts beside them.

On a CPU a tensor is measured at once by the compiled kernel, where it lies. On a device its numbers stay there until
``settle`` fetches those of the whole step (tried with the operators of a CPU, not on an Ascend).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mindspore
import numpy as np
from mindspore import ops

from msprobe.adapters.mindspore.runtime_facts import on_cpu
from msprobe.adapters.mindspore.tensors.memory import address
from msprobe.adapters.mindspore.tensors.tensor_ops import MindSporeTensorOps, numbers_of
from msprobe.adapters.mindspore.tensors.values import GraphValue
from msprobe.monitor.host_statistics import COUNTS, MEASURED, code_of, host_statistics, is_finite
from msprobe.native.loader import load

_abs, _cast, _is_inf, _is_nan = ops.Abs(), ops.Cast(), ops.IsInf(), ops.IsNan()
_less, _stack, _sum = ops.Less(), ops.Stack(), ops.ReduceSum()
_stop_gradient = ops.stop_gradient


class MindSporeMeter:
    """Implements ``TensorMeter``.

    Args:
        eps: magnitudes below it count as zero.
        rounded: sums are rounded to float32, as the framework itself gives them.
    """

    def __init__(self, eps: float, rounded: bool = False) -> None:
        self._eps = eps
        self._rounded = rounded
        self._ops = MindSporeTensorOps(precision="high")
        self._kernel = load()
        self._on_host = on_cpu()
        self._waiting: list[tuple[dict[str, Any], str, Any]] = []

    def measure(self, tensor: Any, needs: frozenset[str]) -> dict[str, Any]:
        """Return the node of a tensor or a number; counts and the values of a device follow with ``settle``."""
        one = tensor if isinstance(tensor, (mindspore.Tensor, GraphValue)) else GraphValue(np.asarray(tensor), False)
        counted = [name for name in COUNTS if name in needs]
        node = self._in_double(one, needs) or self._ops.describe(one, bool(counted) or not needs.isdisjoint(MEASURED))
        node["shape"] = tuple(node["shape"])
        node["elements"] = math.prod(node["shape"])
        for name in counted:
            self._count(one, node, name)
        if "id" in needs and not node["shape"]:
            self._set_value(one, node)
        return node

    def measure_all(self, tensors: Sequence[Any], needs: frozenset[str]) -> list[dict[str, Any]]:
        """Return the nodes of tensors or numbers."""
        return [self.measure(tensor, needs) for tensor in tensors]

    def settle(self) -> None:
        """Complete the nodes of the step: one copy of all counts, and one of all values."""
        self._ops.settle()
        waiting, self._waiting = self._waiting, []
        for counts in (True, False):
            here = [entry for entry in waiting if (entry[1] in COUNTS) is counts]
            numbers = _stack([value for *_, value in here]).asnumpy().tolist() if here else []
            for (node, name, _), number in zip(here, numbers, strict=True):
                node[name] = number

    def _in_double(self, tensor: Any, needs: frozenset[str]) -> dict[str, Any] | None:
        """Return the node of a tensor in the memory of this process, its sums in double; None for another tensor."""
        kernel, code = self._kernel, code_of(str(tensor.dtype))
        if self._rounded or kernel is None or code is None or not self._readable(tensor):
            return None
        pointer, elements = address(tensor), tensor.size
        if not pointer or not elements:
            return None
        numbers = host_statistics(kernel, (pointer, elements, code), needs)
        return {"dtype": str(tensor.dtype), "shape": tensor.shape, **numbers}

    def _readable(self, tensor: Any) -> bool:
        return self._on_host and not isinstance(tensor, GraphValue)

    def _count(self, tensor: Any, node: dict[str, Any], name: str) -> None:
        """Count elements; a finite norm says that there is neither a NaN nor an infinity."""
        code = code_of(str(tensor.dtype))
        if not node["elements"] or (name != "zeros" and is_finite(node)):
            node[name] = 0
        elif not self._on_host and isinstance(tensor, mindspore.Tensor):
            self._count_on_device(tensor, node, name)
        elif (
            name == "zeros"
            and code is not None
            and self._kernel is not None
            and self._readable(tensor)
            and (pointer := address(tensor))
        ):
            node[name] = self._kernel.small(pointer, node["elements"], code, self._eps)
        else:
            node[name] = _counted(numbers_of(tensor), name, self._eps)

    def _count_on_device(self, tensor: Any, node: dict[str, Any], name: str) -> None:
        if name != "zeros" and code_of(str(tensor.dtype)) is None and not tensor.is_floating_point():
            node[name] = 0
            return
        values = _stop_gradient(tensor)
        if name == "zeros":
            found = _less(_abs(_cast(values, mindspore.float32)), self._eps)
        else:
            found = (_is_nan if name == "nans" else _is_inf)(values)
        self._wait(node, name, _sum(_cast(found, mindspore.int32)))

    def _set_value(self, tensor: Any, node: dict[str, Any]) -> None:
        if not self._on_host and isinstance(tensor, mindspore.Tensor):
            self._wait(node, "id", _cast(_stop_gradient(tensor), mindspore.float32))
            return
        array = numbers_of(tensor)
        node["id"] = None if array is None else array.item()

    def _wait(self, node: dict[str, Any], name: str, value: Any) -> None:
        node[name] = None
        self._waiting.append((node, name, value))


def _counted(array: Any, name: str, eps: float) -> int | None:
    """Count elements of an array of numbers; None without one."""
    if array is None:
        return None
    if name == "zeros":
        return int((np.abs(array) < eps).sum())
    if array.dtype.kind not in "fc":
        return 0
    return int((np.isnan(array) if name == "nans" else np.isinf(array)).sum())
