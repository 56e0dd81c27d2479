"""The tensors in a value, however it is nested, and the walk that finds them always ends."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msprobe.core.capture.containers import shape_of, tensors_in
from msprobe.core.capture.parts import PARTS_LIMIT


class Tensor:
    """Stands for a framework's tensor."""


class Pair(NamedTuple):
    a: Any
    b: Any


class Endless(Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        return Tensor()

    def __iter__(self) -> Iterator[Any]:
        return itertools.count()

    def __len__(self) -> int:
        return 3


def test_tensors_are_found_in_order() -> None:
    first, second, third = Tensor(), Tensor(), Tensor()
    value = [first, {"k": (1, second)}, Pair(None, collections.OrderedDict(x=third))]
    assert tensors_in(value, Tensor) == [first, second, third]
    assert shape_of(value, lambda _: "T", Tensor) == ["T", {"k": [None, "T"]}, {"a": None, "b": {"x": "T"}}]


def test_an_endless_mapping_has_as_many_parts_as_it_says() -> None:
    assert len(tensors_in([Endless()], Tensor)) == 3


def test_what_is_held_twice_at_every_level_ends() -> None:
    value: Any = Tensor()
    for _ in range(60):
        value = [value, value]
    assert 0 < len(tensors_in(value, Tensor)) <= PARTS_LIMIT
