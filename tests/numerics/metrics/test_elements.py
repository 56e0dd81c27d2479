"""Element metrics against their definitions, and the compiled kernel against numpy."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from msprobe.native import loader
from msprobe.numerics.metrics import elements
from msprobe.numerics.metrics.elements import SAME, ElementDifference, element_difference

TYPES = [np.float16, np.float32, np.float64]
PAIRS = st.sampled_from(TYPES).flatmap(
    lambda kind: npst.array_shapes(max_dims=2, max_side=60).flatmap(
        lambda shape: st.tuples(npst.arrays(kind, shape), npst.arrays(kind, shape))
    )
)


def by_numpy(n: np.ndarray, b: np.ndarray, dtype: str) -> ElementDifference:
    kept, elements.load = elements.load, lambda: None
    try:
        return element_difference(n, b, dtype)
    finally:
        elements.load = kept


def same(ours: ElementDifference, theirs: ElementDifference) -> bool:
    return repr(ours) == repr(theirs)  # NaN is not equal to itself


@pytest.mark.skipif(loader.load() is None, reason="needs the compiled kernel")
@given(PAIRS)
def test_the_kernel_agrees_with_numpy(pair: tuple[np.ndarray, np.ndarray]) -> None:
    n, b = pair
    assert same(element_difference(n, b, ""), by_numpy(n, b, ""))


@pytest.mark.skipif(loader.load() is None, reason="needs the compiled kernel")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("odd", [0.0, math.nan, math.inf])
def test_the_kernel_agrees_with_numpy_over_several_blocks(kind: type, odd: float) -> None:
    random = np.random.default_rng(0)
    n = random.normal(size=(3, 2500)).astype(kind)
    b = n.copy()
    b[1, 7:2000] += kind(0.01)
    b[2, 2499] = 9
    n[0, 3] = b[0, 3] = odd
    if odd:
        n[2, 100] = odd
    assert same(element_difference(n, b, ""), by_numpy(n, b, ""))
    assert element_difference(n, b, "").first == (1, 7)


@given(PAIRS)
def test_first_and_worst_are_what_they_say(pair: tuple[np.ndarray, np.ndarray]) -> None:
    n, b = pair
    found = element_difference(n, b, "")
    differs = (n != b) & ~(np.isnan(n) & np.isnan(b))
    assert (found.first is None) == (not differs.any()) and (found == SAME) == (not differs.any())
    if found.first is not None and found.worst is not None:
        assert found.first == tuple(np.argwhere(differs)[0])
        assert differs[found.worst]
        if np.isfinite(n[differs]).all() and np.isfinite(b[differs]).all():
            with np.errstate(over="ignore", invalid="ignore"):
                apart = np.abs(n.astype(np.float64) - b.astype(np.float64))
            assert apart[found.worst] == apart[differs].max()
        else:
            assert found.ulps is None and not found.close


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(1, 20))
def test_ulps_count_the_steps_of_nextafter(value: float, steps: int) -> None:
    start = np.array([value, 1.0], np.float32)
    end = start.copy()
    for _ in range(steps if value < 1e38 else 0):
        end[0] = np.nextafter(end[0], np.float32(np.inf))
    assert element_difference(end, start, "torch.float32").ulps == (steps if value < 1e38 else 0)


def test_zeros_of_both_signs_are_one_number() -> None:
    assert element_difference(np.array([-0.0, 1.0]), np.array([0.0, 1.0]), "") == SAME
    least = np.nextafter(np.float32(0), np.float32(1))
    assert element_difference(np.array([least]), np.array([-least]), "").ulps == 2


def test_bfloat16_is_counted_in_its_own_steps() -> None:
    """Arrays hold it as float32; 1.0 and its successor 1.0078125 are one step apart."""
    n, b = np.array([1.0078125, 2.0], np.float32), np.array([1.0, 2.0], np.float32)
    assert element_difference(n, b, "torch.bfloat16").ulps == 1
    assert element_difference(n, b, "torch.float32").ulps == 1 << 16


EXACT = {
    "int64": (np.array([-(2**63), 5]), np.array([2**63 - 1, 5]), 2**64 - 1),
    "uint8": (np.array([0, 7], np.uint8), np.array([255, 7], np.uint8), 255),
    "bool": (np.array([True, False]), np.array([False, False]), 1),
    "complex64": (np.array([1 + 1j], np.complex64), np.array([1 + np.nextafter(np.float32(1), np.float32(2)) * 1j]), 1),
}


@pytest.mark.parametrize("kind", list(EXACT))
def test_other_types(kind: str) -> None:
    n, b, steps = EXACT[kind]
    assert element_difference(n, b.astype(n.dtype), "").ulps == steps


SMALL = {
    "torch.float8_e4m3fn": ([2.0, 1.0], [2.25, 1.0], 1),
    "Float8E5M2": ([2.0, -0.0], [2.5, 0.0], 1),
    "torch.float8_e5m2": ([0.0, 2.0**-16], [0.0, -(2.0**-16)], 2),
}


@pytest.mark.parametrize("dtype", list(SMALL))
def test_steps_of_eight_bit_floats(dtype: str) -> None:
    """They are read as float32, and counted in their own numbers."""
    n, b, steps = SMALL[dtype]
    found = element_difference(np.array(n, np.float32), np.array(b, np.float32), dtype)
    assert found.ulps == steps and found.target == n[found.worst[0] if found.worst else 0]


def test_what_has_no_count() -> None:
    n, b = np.array([1.0, 2.0], np.float32), np.array([1.0, 2.3], np.float32)
    assert element_difference(n, b, "torch.float8_e5m2").ulps is None  # no number of this dtype
    assert element_difference(n.astype(np.float64), b, "torch.float64").ulps is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_close_means_what_torch_means(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    golden = torch.tensor([1.0, 100.0, 0.0], dtype=kind)
    for factor in (0.5, 2.0):
        target = golden + torch.tensor([0.0, factor * 100 * elements._CLOSE[dtype][0], 0.0], dtype=kind)
        try:
            torch.testing.assert_close(target, golden)
            expected = True
        except AssertionError:
            expected = False
        n, b = (side.float().numpy() if dtype == "bfloat16" else side.numpy() for side in (target, golden))
        assert element_difference(n, b, f"torch.{dtype}").close is expected


def test_a_scalar_has_the_empty_index(tmp_path: Path) -> None:
    assert element_difference(np.array(1.0), np.array(2.0), "").worst == ()


def test_steps_of_complex32_are_those_of_its_halves() -> None:
    golden = np.array([1 + 2j, 3 - 1j], np.complex64)
    target = golden + np.array([2.0**-10, 0], np.complex64)  # one step of float16 at 1
    found = element_difference(target, golden, "torch.complex32")
    assert (found.ulps, found.close, found.first) == (1, True, (0,))
