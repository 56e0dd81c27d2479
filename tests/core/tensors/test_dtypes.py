"""Dtype spellings, rounding to a dtype, and the meaning of 8-bit floats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.tensors.dtypes import (
    ALL_DTYPES,
    FLOAT32,
    DType,
    DtypeKind,
    find_dtype,
    float8_values,
    mindspore_name,
    round_to,
)

FLOAT8 = [dtype for dtype in ALL_DTYPES if dtype.name.startswith("float8")]


def known(name: str) -> DType:
    found = find_dtype(name)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_every_framework_spelling_is_the_same_dtype(dtype: DType) -> None:
    assert find_dtype(f"torch.{dtype.name}") is dtype
    assert find_dtype(mindspore_name(dtype)) is dtype
    assert find_dtype(dtype.name) is dtype


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Float32", "float32"),
        ("BFloat16", "bfloat16"),
        ("UInt8", "uint8"),
        ("Bool", "bool"),
        ("mindspore.int64", "int64"),
        ("torch.half", "float16"),
        ("Float8E4M3FN", "float8_e4m3fn"),
    ],
)
def test_spellings_in_the_wild(spelling: str, name: str) -> None:
    assert known(spelling).name == name


@pytest.mark.parametrize("spelling", ["", "torch.quint8", "str", "numpy.", "datetime64[ns]"])
def test_other_words_are_not_taken_for_a_wrong_dtype(spelling: str) -> None:
    assert find_dtype(spelling) is None


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL_DTYPES if dtype.is_native], ids=lambda dtype: dtype.name)
def test_sizes_and_limits_are_those_of_numpy(dtype: DType) -> None:
    theirs = np.dtype(dtype.name)
    assert theirs.itemsize == dtype.itemsize
    if dtype.kind in (DtypeKind.FLOAT, DtypeKind.COMPLEX):
        limits = np.finfo(theirs)
        assert dtype.largest == float(limits.max)
        assert dtype.finest == float(limits.smallest_subnormal)
        assert dtype.unit_roundoff == float(limits.eps) / 2


def test_kernel_codes_are_distinct() -> None:
    codes = [dtype.code for dtype in ALL_DTYPES if dtype.code >= 0]
    assert sorted(codes) == list(range(len(codes)))


@given(st.floats(allow_nan=False))
def test_rounding_to_float16_and_float32_is_that_of_numpy(value: float) -> None:
    with np.errstate(over="ignore"):
        assert round_to(known("float16"), value) == float(np.float64(value).astype(np.float16))
        assert round_to(FLOAT32, value) == float(np.float32(value))
    assert round_to(known("float64"), value) == value


def bfloat16_neighbours(value: float) -> tuple[float, float]:
    """The two bfloat16 around a float32 value, by cutting and stepping its bits."""
    bits = int(np.float32(value).view(np.uint32)) & 0xFFFF0000
    pair = np.array([bits, bits + 0x10000], np.uint32).view(np.float32)
    return float(pair[0]), float(pair[1])


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_rounding_to_bfloat16_takes_the_nearest(value: float) -> None:
    near, far = bfloat16_neighbours(value)
    rounded = round_to(known("bfloat16"), value)
    assert rounded in (near, far)
    if math.isfinite(far):
        assert abs(rounded - value) == min(abs(near - value), abs(far - value))


@pytest.mark.parametrize(
    ("value", "rounded"), [(257.0, 256.0), (259.0, 260.0), (3.4e38, math.inf), (-3.4e38, -math.inf)]
)
def test_bfloat16_ties_go_to_even_and_overflow_is_infinite(value: float, rounded: float) -> None:
    assert round_to(known("bfloat16"), value) == rounded


@pytest.mark.torch
@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda dtype: dtype.name)
def test_float8_tables_are_those_of_torch(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    bits = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    theirs = bits.view(getattr(torch, dtype.name)).to(torch.float32).tolist()
    np.testing.assert_array_equal(float8_values(dtype), theirs)


@pytest.mark.parametrize("dtype", FLOAT8, ids=lambda dtype: dtype.name)
def test_float8_limits_are_in_the_table(dtype: DType) -> None:
    finite = [abs(value) for value in float8_values(dtype) if math.isfinite(value) and value]
    assert (max(finite), min(finite)) == (dtype.largest, dtype.finest)


def test_other_dtypes_have_no_float8_table() -> None:
    with pytest.raises(ValueError, match="float32 is not an 8-bit float"):
        float8_values(FLOAT32)
