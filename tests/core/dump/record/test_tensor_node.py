"""Slices and requests: which part of a tensor is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.config.sections import SliceItem
from msprobe.core.dump.record.tensor_node import MeasuredTensors, SlicedTensors, cut
from msprobe.core.dump.session.start_filters import tokens_of

TENSOR = np.arange(24).reshape(4, 6)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([{"begin": 1, "end": 3}], TENSOR[1:3]),
        ([{"dim": 1, "begin": 4}], TENSOR[:, 4:]),
        ([{"dim": 1, "end": -1}], TENSOR[:, :-1]),
        ([{"begin": 1}, {"begin": 1}], TENSOR[2:]),
        ([{"size": 4, "end": 1}], TENSOR[:1]),
        ([{"begin": 9}], TENSOR[9:]),
    ],
)
def test_items_apply_one_after_the_other(items: list[dict[str, int]], expected: Any) -> None:
    assert np.array_equal(cut(TENSOR, [SliceItem(**item) for item in items]), expected)


@pytest.mark.parametrize("item", [{"dim": 2, "end": 1}, {"size": 5, "end": 1}, {"dim": 1, "size": 4, "end": 1}])
def test_an_item_that_does_not_fit_leaves_the_tensor_alone(item: dict[str, int]) -> None:
    assert cut(TENSOR, [SliceItem(**item)]) is TENSOR


def test_a_tensor_that_cannot_be_cut_is_taken_whole() -> None:
    class Sparse:
        shape = (4,)

        def __getitem__(self, key: Any) -> Any:
            raise NotImplementedError("no slices of a sparse tensor")

    sparse = Sparse()
    assert cut(sparse, [SliceItem(end=1)]) is sparse


def test_the_gradient_fact_is_that_of_the_whole_tensor() -> None:
    class Tensor:
        shape = (4,)
        requires_grad = True

        def __getitem__(self, key: Any) -> Any:
            return Tensor()

    class Measured(MeasuredTensors[Any]):
        def __init__(self) -> None:
            self.folder = None

        def leaf(self, *_: Any) -> Any:
            return {"requires_grad": False}

    nodes = SlicedTensors(Measured(), [SliceItem(end=1)], lambda: None, lambda tensor: tensor)
    assert nodes.leaf(Tensor(), "") == {"requires_grad": True}


COUNTS = st.dictionaries(st.text("abc-", min_size=1, max_size=6), st.integers(0, 5), min_size=1)


@given(COUNTS, st.data())
def test_the_cuts_of_all_requests_are_the_batch(scheduled: dict[str, int], data: Any) -> None:
    batch = np.arange(sum(scheduled.values()))
    items = [tokens_of(name, scheduled) for name in scheduled]
    parts = [cut(batch, [item]) for item in items if item is not None]
    assert np.array_equal(np.concatenate(parts), batch)
    assert [len(part) for part in parts] == list(scheduled.values())


@pytest.mark.parametrize(
    ("scheduled", "begin"),
    [({"x": 1, "chatcmpl-7": 2}, 1), ({"chatcmpl-7": 2, "7": 1}, 2), ({"a-7": 1, "b-7": 1}, None), ({"77": 1}, None)],
)
def test_a_prefix_of_the_server_is_seen_through(scheduled: dict[str, int], begin: int | None) -> None:
    item = tokens_of("7", scheduled)
    assert (None if item is None else item.begin) == begin
