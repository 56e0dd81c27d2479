"""Tensors put together from blocks against numpy, whole and a range at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensor_files.blocks import Block, assembled, rows


def lazy(values: Any) -> LazyTensor:
    array = np.ascontiguousarray(values)
    return LazyTensor(array.shape, array.dtype.name, lambda: array, lambda start, stop: array.reshape(-1)[start:stop])


@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    cuts=st.lists(st.integers(1, 5), max_size=2),
    axis=st.integers(0, 2),
    data=st.data(),
)
def test_blocks_are_the_whole(shape: list[int], cuts: list[int], axis: int, data: st.DataObject) -> None:
    whole = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    axis %= len(shape)
    edges = sorted({0, shape[axis], *(cut for cut in cuts if cut < shape[axis])})
    blocks = []
    for low, high in pairwise(edges):
        offsets = [0] * len(shape)
        offsets[axis] = low
        blocks.append(Block(tuple(offsets), lazy(whole.take(range(low, high), axis))))
    tensor = assembled(tuple(shape), blocks[::-1])
    assert tensor.read().tolist() == whole.tolist()
    start = data.draw(st.integers(0, whole.size))
    stop = data.draw(st.integers(start, whole.size))
    assert tensor.read_range is not None
    assert tensor.read_range(start, stop).tolist() == whole.reshape(-1)[start:stop].tolist()


def test_rows() -> None:
    part = rows(lazy(np.arange(12).reshape(4, 3)), 1, 3)
    assert part.shape == (2, 3) and part.read().tolist() == [[3, 4, 5], [6, 7, 8]]
    assert part.read_range is not None and part.read_range(1, 4).tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        pytest.param([(0,), (1,)], "lie over each other", id="overlap"),
        pytest.param([(0,), (3,)], "does not lie in", id="outside"),
        pytest.param([(0,), (-2,)], "does not lie in", id="minus"),
        pytest.param([(0,)], "2 of 4 elements", id="gap"),
        pytest.param([(0, 0), (2, 0)], "does not lie in", id="another-rank"),
    ],
)
def test_blocks_that_do_not_fit(offsets: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ReadError, match=message):
        assembled((4,), [Block(one, lazy(np.zeros(2))) for one in offsets])
