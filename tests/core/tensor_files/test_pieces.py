"""Tensors in pieces hold the elements of the whole tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.tensor_files import pieces
from msprobe.core.tensor_files.npu_layouts import to_blocks, to_plain
from msprobe.core.tensor_files.pieces import in_any_order, in_order

SHAPES = st.one_of(
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 40), st.integers(1, 40)),
)


@settings(deadline=None)
@given(SHAPES, st.sampled_from([8, 16, 32]), st.sampled_from(["float32", "int8", "float16"]), st.booleans())
def test_nz(shape: tuple[int, ...], block: int, dtype: str, known: bool) -> None:
    plain = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)
    stored = np.ascontiguousarray(to_blocks(plain, "FRACTAL_NZ", block))
    original = shape if known else None
    whole = to_plain(stored, "FRACTAL_NZ", original)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_PIECE", 700)  # several pieces of a small tensor
        patch.setattr(pieces, "_BAND", 3000)
        found, ordered = in_order(stored, "FRACTAL_NZ", original)
        _, others = in_any_order(stored, "FRACTAL_NZ", original)
        rows = np.concatenate([piece.reshape(-1).copy() for piece in ordered])
        assert found == whole.shape and np.array_equal(rows, whole.reshape(-1))
        assert np.array_equal(np.sort(np.concatenate([one.reshape(-1) for one in others])), np.sort(rows))


@pytest.mark.parametrize("layout", ["ND", "NC1HWC0"])
@pytest.mark.parametrize("shape", [(2, 17, 3, 2), (0, 16, 1, 1)])
def test_other_layouts(layout: str, shape: tuple[int, ...]) -> None:
    plain = np.arange(np.prod(shape)).reshape(shape)
    stored = plain if layout == "ND" else to_blocks(plain, layout)
    found, parts = in_any_order(stored, layout, shape)
    assert found == shape
    assert np.array_equal(np.concatenate([plain[:0].reshape(-1), *parts]), plain.reshape(-1))


@pytest.mark.parametrize("original", [(17, 1), (1, 1, 1), (-1, 1)])
def test_original_shapes_that_do_not_fit(original: tuple[int, ...]) -> None:
    for read in (in_order, in_any_order):
        with pytest.raises(ReadError, match="does not fit into FRACTAL_NZ"):
            read(np.zeros((1, 1, 16, 16)), "FRACTAL_NZ", original)
