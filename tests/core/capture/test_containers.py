"""The tensors in a value, however it is nested, and the walk that finds them always ends."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from msprobe.core.capture.containers import PARTS_LIMIT, has_parts, items_of, parts_of, shape_of, tensors_in, with_parts


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


class Items(list[Any]):
    """A list that says that it is empty."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Table(dict[Any, Any]):
    """A dict that says that it is empty."""

    def items(self) -> Any:
        return {}.items()


@dataclasses.dataclass
class Options:
    rate: float


class Hostile:
    """A key that has no text."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ([1, 2], [1, 2]),
        ((1,), (1,)),
        (Items([1, 2]), [1, 2]),
        (Table({1: 2}), {"1": 2}),
        ({Hostile(): 1}, {"<Hostile>": 1}),
        (Pair(1, 2), {"a": 1, "b": 2}),
        (Options(0.5), {"rate": 0.5}),
        (3, None),
        ({1, 2}, None),
        ("text", None),
    ],
    ids=["list", "tuple", "subclass", "dict", "key", "named tuple", "dataclass", "number", "set", "text"],
)
def test_parts_are_those_that_a_container_holds(value: Any, parts: Any) -> None:
    assert parts_of(value) == parts
    assert has_parts(type(value)) is (parts is not None)


def test_items_have_the_keys_as_they_are() -> None:
    assert list(items_of({1: "a"})) == [(1, "a")]
    assert list(items_of(Items(["a"]))) == [(0, "a")]


def test_a_container_is_rebuilt_with_other_parts() -> None:
    assert with_parts([1, 2], lambda key, part: (key, part)) == [(0, 1), (1, 2)]
    assert with_parts((1,), lambda key, part: part + 1) == (2,)
    assert with_parts({"k": 1}, lambda key, part: f"{key}{part}") == {"k": "k1"}
