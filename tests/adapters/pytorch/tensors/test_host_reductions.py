"""Statistics without the compiled kernel: the numpy definition, for every dtype, special value and size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe.adapters.pytorch.tensors.reductions import host_statistics
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.tensors.dtypes import ALL_DTYPES, FLOAT32, DType
from msprobe.core.tensors.numpy_ops import decode, statistics
from msprobe.core.tensors.statistics import TensorStats
from msprobe.native import fused
from tests.native.agreement import assert_agree
from tests.native.random_bits import bits_of, random_bits

PIECES = 600_000  # elements of more than two pieces
KNOWN = [dtype for dtype in ALL_DTYPES if isinstance(getattr(torch, dtype.name, None), torch.dtype)]
REDUCED = [dtype for dtype in KNOWN if dtype.code >= 0 and dtype.name != "float8_e8m0fnu"]
by_dtype = pytest.mark.parametrize("dtype", REDUCED, ids=lambda dtype: dtype.name)


def tensor_of(array: Any, dtype: DType) -> torch.Tensor:
    """The same bytes as a tensor: formats that numpy does not have come in a container of their width."""
    tensor = torch.from_numpy(array)
    return tensor if str(tensor.dtype).removeprefix("torch.") == dtype.name else tensor.view(getattr(torch, dtype.name))


def check(array: Any, dtype: DType) -> None:
    found = host_statistics(tensor_of(array, dtype), dtype, "low")
    assert_agree(found, statistics(array, dtype.name), dtype, decode(array, dtype))


@by_dtype
@pytest.mark.parametrize("n", [1, 2, 17, 4096])
def test_every_dtype_agrees_with_the_definition(dtype: DType, n: int) -> None:
    check(random_bits(dtype, n, seed=n), dtype)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.skipif(fused is None, reason="the compiled kernel is not installed")
@pytest.mark.parametrize("precision", ["low", "high"])
@by_dtype
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(raw=st.binary(min_size=16, max_size=400))
def test_any_bits_agree_with_the_kernel(dtype: DType, precision: Any, raw: bytes) -> None:
    assert fused is not None
    array = bits_of(dtype, raw)
    theirs = TensorStats(*fused.summary(array.ctypes.data, array.size, dtype.code, precision == "high"))
    ours = host_statistics(tensor_of(array, dtype), dtype, precision)
    rounded_to = dtype if precision == "low" or dtype.digits == 53 else FLOAT32
    assert_agree(ours, theirs, rounded_to, decode(array, dtype))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "int64"])
def test_tensors_of_several_pieces(name: str) -> None:
    dtype = next(one for one in KNOWN if one.name == name)
    check(random_bits(dtype, PIECES, seed=PIECES), dtype)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(values=st.lists(st.floats(width=32), min_size=1, max_size=40))
def test_special_values(values: list[float]) -> None:
    check(np.array(values, np.float32), next(one for one in KNOWN if one.name == "float32"))


@settings(max_examples=200)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_squares_of_float64_do_not_leave_the_range(values: list[float]) -> None:
    check(np.array(values), next(one for one in KNOWN if one.name == "float64"))


def test_the_mean_of_what_cancels_is_that_of_float64() -> None:
    halves = np.random.default_rng(1).normal(size=100_000).astype(np.float32)
    array = np.concatenate([halves, -halves, np.array([1e-3], np.float32)])
    found = host_statistics(torch.from_numpy(array), next(one for one in KNOWN if one.name == "float32"), "low")
    assert found.mean is not None and math.isclose(found.mean, 1e-3 / array.size, rel_tol=1e-6)


@pytest.mark.skipif(fused is None, reason="the compiled kernel is not installed")
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize(
    "view", [lambda t: t, lambda t: t.T, lambda t: t[::2], lambda t: t[:, 3], lambda t: t[:0]],
    ids=["whole", "turned", "strided", "column", "empty"],
)  # fmt: skip
def test_nodes_are_those_of_the_kernel(view: Any, grad: bool) -> None:
    tensor = view(torch.linspace(-3, 7, 240).reshape(20, 12).requires_grad_(grad))
    slow, fast = TorchTensorOps(native=False), TorchTensorOps()
    assert repr(slow.describe(tensor, True)) == repr(fast.describe(tensor, True))
    for kind in ("crc32", "xor"):
        assert slow.describe_with_checksum(tensor, True, kind) == fast.describe_with_checksum(tensor, True, kind)
    assert not slow.outstanding


@pytest.mark.parametrize(
    "write", [lambda t: t.data.add_(1), lambda t: t.detach().numpy().fill(9)], ids=["data", "numpy"]
)
def test_a_write_that_the_version_counter_does_not_see_is_measured(write: Any) -> None:
    tensor, ops = torch.zeros(100), TorchTensorOps()
    before, version = ops.describe(tensor, True), tensor._version
    write(tensor)
    assert tensor._version == version
    assert ops.describe(tensor, True)["Max"] != before["Max"]
