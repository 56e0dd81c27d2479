"""Statistics by operators, tried with the kernels of a CPU: those of the oracle, in one copy for all."""

from __future__ import annotations

import math
from typing import Any

import mindspore
import numpy as np
import pytest

from msprobe.adapters.mindspore.tensors.reductions import DeferredStatistics
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.core.tensors.numpy_ops import statistics
from tests.contracts.test_tensor_ops import ARRAYS

MEASURED = {
    **{name: array for name, array in ARRAYS.items() if array.size and array.dtype.itemsize < 8},
    "large": np.array([3e38, -3e38, 1e30], np.float32),
    "zeros": np.zeros(4, np.float32),
    "nan_and_inf": np.array([math.nan, math.inf], np.float32),
    "minus_inf": np.array([1, -math.inf], np.float32),
}


def added(device: DeferredStatistics, array: Any) -> dict[str, Any]:
    tensor, node = mindspore.Tensor(array), dict[str, Any]()
    dtype = find_dtype(str(tensor.dtype))
    assert dtype is not None and device.add(tensor, dtype, node)
    return node


def test_all_are_filled_in_by_one_copy_and_are_those_of_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    device = DeferredStatistics("low")
    nodes = {name: added(device, array) for name, array in MEASURED.items()}
    assert device.outstanding and not any(nodes.values())
    copies, copy = [], mindspore.Tensor.asnumpy
    monkeypatch.setattr(mindspore.Tensor, "asnumpy", lambda tensor: copies.append(tensor.shape) or copy(tensor))
    device.settle()
    assert len(copies) == 1 and not device.outstanding
    for name, array in MEASURED.items():
        expected, node = statistics(array), nodes[name]
        assert repr((node["Max"], node["Min"])) == repr((expected.max, expected.min)), name
        magnitude = float(np.max(np.abs(array.astype(np.float64)), initial=0))
        unit = 1e-6 * magnitude if math.isfinite(magnitude) else 0.0  # what cancels in float32
        for key, wanted in (("Mean", expected.mean), ("Norm", expected.norm)):
            same = node[key] is wanted or node[key] == pytest.approx(wanted, rel=2e-3, abs=unit, nan_ok=True)
            assert same, (name, key, node[key], wanted)


def test_what_float32_and_int32_cannot_hold_is_left_to_the_host() -> None:
    device = DeferredStatistics("low")
    for array in (ARRAYS["float64"], ARRAYS["int64"], ARRAYS["complex64"], np.array([2**32 - 1], np.uint32)):
        tensor = mindspore.Tensor(array)
        dtype = find_dtype(str(tensor.dtype))
        assert dtype is not None and not device.add(tensor, dtype, {})
    assert not device.outstanding
