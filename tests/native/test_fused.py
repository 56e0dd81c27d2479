"""The compiled statistics against the numpy definition, for every dtype, length and special value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.core.tensors.dtypes import ALL_DTYPES, DType, DtypeKind, find_dtype
from msprobe.core.tensors.numpy_ops import decode, statistics
from msprobe.core.tensors.statistics import TensorStats
from tests.native.agreement import assert_agree
from tests.native.random_bits import bits_of, random_bits

SUPPORTED = [dtype for dtype in ALL_DTYPES if dtype.code >= 0]
FLOATS = [
    dtype
    for dtype in SUPPORTED
    if dtype.kind in (DtypeKind.FLOAT, DtypeKind.COMPLEX) and dtype.name != "float8_e8m0fnu"
]
LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 1000, 2047, 2048, 2049, 4095, 4096, 4097, 8193]
FLOAT32 = 11
by_name = pytest.mark.parametrize("dtype", SUPPORTED, ids=lambda dtype: dtype.name)


def native(kernel: Any, array: NDArray[Any], dtype: DType, high: bool = False) -> TensorStats:
    return TensorStats(*kernel.summary(array.ctypes.data, array.size, dtype.code, high))


def check(kernel: Any, array: NDArray[Any], dtype: DType) -> None:
    assert_agree(native(kernel, array, dtype), statistics(array, dtype.name), dtype, decode(array, dtype))


@by_name
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(raw=st.binary(min_size=16, max_size=600))
def test_any_bits_agree_with_the_definition(kernel: Any, dtype: DType, raw: bytes) -> None:
    check(kernel, bits_of(dtype, raw), dtype)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(values=st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_float32_with_special_values(kernel: Any, values: list[float]) -> None:
    dtype = SUPPORTED[FLOAT32]
    check(kernel, np.array(values, np.float32), dtype)


@pytest.mark.matrix("wide", sample="each value")
@by_name
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_around_lanes_and_blocks(kernel: Any, dtype: DType, n: int) -> None:
    check(kernel, random_bits(dtype, n, seed=n), dtype)


@by_name
def test_empty_has_no_statistics(kernel: Any, dtype: DType) -> None:
    assert kernel.summary(0, 0, dtype.code) == (None, None, None, None)
    assert kernel.stats(0, 0, dtype.code) == (None, None, 0.0, 0.0, 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("position", [0, 5, 15, 16, 2047, 2048, 4100])
def test_nan_anywhere_is_seen(kernel: Any, dtype: DType, position: int) -> None:
    nan_bits = {"bfloat16": 0x7FC1, "float8_e4m3fn": 0x7F, "float8_e5m2": 0x7D}.get(dtype.name, 0x80)
    array = np.zeros(4101, dtype.container)
    array[position] = math.nan if dtype.is_native else nan_bits
    assert all(math.isnan(value) for value in kernel.summary(array.ctypes.data, array.size, dtype.code))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 16, 40])
def test_zeros_of_one_sign_keep_it(kernel: Any, name: str, n: int) -> None:
    """Where zeros of both signs are mixed, which one Max and Min show depends on the instruction set."""
    dtype = find_dtype(name)
    assert dtype is not None
    zeros = np.full(n, 1 << 8 * dtype.itemsize - 1, np.dtype(f"u{dtype.itemsize}"))  # the sign alone
    result = kernel.summary(zeros.ctypes.data, n, dtype.code)
    assert [math.copysign(1.0, extreme) for extreme in result[:2]] == [-1.0, -1.0]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("sign", [0, 0x8000], ids=["positive", "negative"])
@pytest.mark.parametrize("n", [7, 48, 5000])
def test_extremes_of_halves_of_one_sign(kernel: Any, name: str, sign: int, n: int) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    check(kernel, np.random.default_rng(n).integers(1, 0x7C00, n).astype(np.uint16) | np.uint16(sign), dtype)


def test_moments_count_what_is_not_finite(kernel: Any) -> None:
    array = np.ones(5000, np.float32)
    array[[3, 2500]] = math.inf
    assert kernel.stats(array.ctypes.data, array.size, FLOAT32) == (math.inf, 1.0, math.inf, math.inf, 2)
    array[4999] = math.nan
    assert kernel.stats(array.ctypes.data, array.size, FLOAT32)[4] == 3
    large = np.array([1e200, 2e200])
    assert kernel.stats(large.ctypes.data, 2, 12) == (2e200, 1e200, 3e200, math.inf, 0)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_what_is_not_finite_is_counted_in_halves_too(kernel: Any, name: str) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    infinite = {"float16": 0x7C00, "bfloat16": 0x7F80}[name]
    array = np.zeros(9000, np.uint16)
    array[[3, 5000]] = infinite, infinite | 0x8000
    assert kernel.stats(array.ctypes.data, array.size, dtype.code)[4] == 2
    array[8999] = infinite | 1
    assert kernel.stats(array.ctypes.data, array.size, dtype.code)[4] == 3


@pytest.mark.parametrize("offset", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_memory_need_not_be_aligned(kernel: Any, name: str, offset: int) -> None:
    dtype = find_dtype(name)
    assert dtype is not None
    array = random_bits(dtype, 3001, seed=offset)
    room = np.zeros(array.nbytes + 8, np.uint8)
    room[offset : offset + array.nbytes] = array.view(np.uint8)
    assert kernel.summary(room.ctypes.data + offset, array.size, dtype.code) == kernel.summary(
        array.ctypes.data, array.size, dtype.code
    )


def test_error_does_not_grow_with_the_length(kernel: Any) -> None:
    array = np.full(3_000_000, 0.1)
    _, _, mean, norm = kernel.summary(array.ctypes.data, array.size, 12)
    assert mean == pytest.approx(0.1, rel=2e-16)
    assert norm == pytest.approx(0.1 * math.sqrt(array.size), rel=4e-16)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_high_precision(kernel: Any, dtype: DType) -> None:
    array = random_bits(dtype, 777, seed=1)
    ours, other = native(kernel, array, dtype, high=True), statistics(array, dtype.name, "high")
    target = dtype if dtype.digits == 53 else SUPPORTED[FLOAT32]
    assert_agree(ours, other, target, decode(array, dtype))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 3, FLOAT32), "null pointer"),
        ((16, 0, 20), "unknown dtype code 20"),
        ((16, 0, -2), "unknown dtype code -2"),
        ((16, 0), "expected"),
        ((16, -1, FLOAT32), "negative|convert"),
        (("16", 0, FLOAT32), "int"),
    ],
)
def test_wrong_arguments_are_refused(kernel: Any, arguments: tuple[Any, ...], error: str) -> None:
    for function in (kernel.stats, kernel.summary, kernel.summary_crc32):
        with pytest.raises((TypeError, ValueError, OverflowError), match=error):
            function(*arguments)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 100, 4097, 200_000])
def test_agrees_with_torch(kernel: Any, name: str, n: int) -> None:
    torch = pytest.importorskip("torch")
    dtype = find_dtype(name)
    assert dtype is not None
    generator = torch.Generator().manual_seed(n)
    tensor = (torch.randn(n, generator=generator) + 0.5).to(getattr(torch, name))
    highest, lowest, mean, norm = kernel.summary(tensor.data_ptr(), n, dtype.code, True)
    wide = tensor.double()
    assert (highest, lowest) == (tensor.max().item(), tensor.min().item())
    assert mean == pytest.approx(wide.mean().item(), rel=1e-6)
    assert norm == pytest.approx(wide.norm().item(), rel=1e-6)
