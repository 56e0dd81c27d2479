"""Hashes of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe.setup_check.collection.content_hash import content_hash, element_sum


def data(values: object, dtype: str) -> np.ndarray:  # type: ignore[type-arg]
    """Return the bytes of an array."""
    return np.array(values, dtype).view(np.uint8)


def test_dtype_and_shape_count() -> None:
    zeros = data([0, 0, 0, 0], "int32")
    hashes = {content_hash(zeros, kind, shape) for kind in ("torch.int32", "Float32") for shape in ((4,), (2, 2))}
    assert len(hashes) == 4
    assert content_hash(zeros, "torch.float32", (4,)) == content_hash(zeros, "Float32", (4,))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_the_sum_knows_elements_not_their_order(dtype: str) -> None:
    values = (np.arange(70_000) % 200).astype(dtype)
    width = values.itemsize
    ordered, reverse = element_sum(values.view(np.uint8), width), element_sum(values[::-1].copy().view(np.uint8), width)
    assert ordered == reverse
    values[5] = values[6]
    assert element_sum(values.view(np.uint8), width) != ordered


def test_elements_of_other_widths_have_no_sum() -> None:
    assert element_sum(data([1, 2], "uint8"), 16) == ""
