"""The compiled difference of two tensors against the numpy definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.native.loader import load
from msprobe.numerics.metrics import tensor
from msprobe.numerics.metrics.tensor import TensorDifference, tensor_difference

KERNEL = load()
pytestmark = pytest.mark.skipif(KERNEL is None, reason="the kernel is not built")
LENGTHS = [2, 7, 8, 9, 2047, 2048, 2049, 5001]
DTYPES = ["float16", "float32", "float64"]


def by_numpy(n: NDArray[np.float64], b: NDArray[np.float64]) -> TensorDifference:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor, "_kernel", lambda: None)
        return tensor_difference(n, b)


def assert_same(n: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    ours, theirs = tensor_difference(n, b), by_numpy(n, b)
    assert (ours.problem, ours.non_finite) == (theirs.problem, theirs.non_finite)
    for mine, other in zip(ours.cells, theirs.cells, strict=True):
        assert mine == other or float(mine) == pytest.approx(float(other), rel=1e-12, abs=1e-15)
    for name in ("relative_norm", "relative_max", "norm", "largest"):
        if not (name in ("norm", "largest") and ours.relative_max == 0.0):  # equal bytes need no scale
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_agrees_with_numpy(dtype: str, length: int) -> None:
    generator = np.random.default_rng(length)
    b = generator.normal(size=length).astype(dtype)
    b[:: max(length // 3, 2)] = 0
    n = (b + generator.normal(size=length) * 1e-3).astype(dtype)
    assert_same(n, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, 6, 2047, 2048, 3000])
def test_odd_values(dtype: str, odd: float, at: int) -> None:
    b = np.random.default_rng(1).normal(size=3001).astype(dtype)
    n = (b * 1.01).astype(dtype)
    n[at] = odd
    assert tensor_difference(n, b).non_finite and tensor_difference(b, n).non_finite
    b[at] = odd
    assert_same(n, b)
    b[at] = -odd if math.isinf(odd) else 1.0
    assert tensor_difference(n, b).non_finite


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=2, max_size=40))
def test_any_values(pairs: list[tuple[float, float]]) -> None:
    with np.errstate(all="ignore"):
        n, b = (np.array(side, np.float32) for side in zip(*pairs, strict=True))
        assert_same(n, b)


def test_wrong_arguments() -> None:
    assert KERNEL is not None
    values = np.ones(4)
    with pytest.raises(ValueError, match="dtype code"):
        KERNEL.difference(values.ctypes.data, values.ctypes.data, 4, 3)
    with pytest.raises(ValueError, match="null pointer"):
        KERNEL.difference(values.ctypes.data, 0, 4, 12)
    with pytest.raises(TypeError):
        KERNEL.difference(values.ctypes.data, 4, 12)  # type: ignore[call-arg, arg-type]
