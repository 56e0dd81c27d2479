"""Layouts of NPU memory against their inverse, and against loops written from the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files.npu_layouts import to_blocks, to_plain

SHAPES = st.tuples(*[st.integers(1, 20)] * 2, *[st.integers(1, 4)] * 3)
LAYOUTS = st.sampled_from(["NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ", "NDC1HWC0"])


@settings(deadline=None)
@given(LAYOUTS, SHAPES, st.sampled_from([8, 16, 32]))
def test_round_trip(layout: str, sizes: tuple[int, ...], block: int) -> None:
    shape = sizes if layout == "NDC1HWC0" else sizes[:4]
    plain = np.arange(np.prod(shape)).reshape(shape)
    assert np.array_equal(to_plain(to_blocks(plain, layout, block), layout, shape), plain)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 3), max_size=2),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.sampled_from([("float32", 8), ("float32", 16), ("float16", 16), ("int8", 32), ("uint8", 32), ("int64", 4)]),
)
def test_nz_of_any_batch_and_block(batch: list[int], matrix: tuple[int, int], kind: tuple[str, int]) -> None:
    shape, (dtype, block) = (*batch, *matrix), kind
    plain = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    stored = to_blocks(plain, "FRACTAL_NZ", block)
    assert stored.shape == (*batch, -(-matrix[1] // block), -(-matrix[0] // 16), 16, block)
    assert np.array_equal(to_plain(stored, "FRACTAL_NZ", shape), plain)
    whole = to_plain(stored, "FRACTAL_NZ")
    assert whole.shape[-2] % 16 == whole.shape[-1] % block == 0
    assert np.count_nonzero(whole) == np.count_nonzero(plain)


def test_nz_of_one_axis() -> None:
    stored = to_blocks(np.arange(20).reshape(1, 20), "FRACTAL_NZ")
    assert to_plain(stored, "FRACTAL_NZ", (20,)).tolist() == list(range(20))


def test_nz_element_by_element() -> None:
    plain = np.arange(20 * 40).reshape(20, 40)
    stored = to_blocks(plain, "FRACTAL_NZ")
    assert stored.shape == (3, 2, 16, 16)
    for row, column in ((0, 0), (17, 3), (19, 39), (5, 16)):
        assert stored[column // 16, row // 16, row % 16, column % 16] == plain[row, column]


def test_fractal_z_element_by_element() -> None:
    plain = np.arange(17 * 18 * 2 * 3).reshape(17, 18, 2, 3)
    stored = to_blocks(plain, "FRACTAL_Z")
    assert stored.shape == (2 * 2 * 3, 2, 16, 16)
    for n, c, h, w in ((0, 0, 0, 0), (16, 17, 1, 2), (3, 16, 1, 0)):
        assert stored[(c // 16 * 2 + h) * 3 + w, n // 16, n % 16, c % 16] == plain[n, c, h, w]


def test_nc1hwc0_element_by_element() -> None:
    plain = np.arange(2 * 18 * 2 * 3).reshape(2, 18, 2, 3)
    stored = to_blocks(plain, "NC1HWC0")
    for n, c, h, w in ((0, 0, 0, 0), (1, 17, 1, 2)):
        assert stored[n, c // 16, h, w, c % 16] == plain[n, c, h, w]


@pytest.mark.parametrize(
    ("shape", "layout", "original"),
    [
        ((2, 3), "FRACTAL_NZ", None),
        ((2, 3), "NC1HWC0", (1, 1, 1, 1)),
        ((1, 1, 16, 16), "FRACTAL_Z", None),
        ((5, 1, 16, 16), "FRACTAL_Z", (1, 1, 2, 2)),
        ((1, 1, 16, 16), "FRACTAL_NZ", (17, 1)),
    ],
)
def test_shapes_that_do_not_fit(shape: tuple[int, ...], layout: str, original: tuple[int, ...] | None) -> None:
    with pytest.raises(ReadError):
        to_plain(np.zeros(shape), layout, original)
