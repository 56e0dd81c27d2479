"""Any argument has a JSON form: the shape is kept, tensors go to the leaf, nothing odd raises."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from msprobe.core.capture.containers import DEPTH_LIMIT, PARTS_LIMIT
from msprobe.core.capture.describe import TEXT_LIMIT, Describer
from msprobe.core.store.journal import dumps
from tests.stable_ids import stable_id


class Tensor:
    """Stands for a framework's tensor."""


class Size(tuple[int, ...]):
    """A value type of the framework."""


class Huge(Size):
    """And a subclass of it."""


class Point(NamedTuple):
    x: int
    y: Any


@dataclasses.dataclass
class Options:
    rate: float
    inner: Any = None


class Color(enum.IntEnum):
    RED = 1


PLACES: list[str] = []


def leaf(value: Any, place: str, around: tuple[int, ...]) -> Any:
    PLACES.append(place)
    return {"type": "Tensor", "place": place}


def describer() -> Describer:
    PLACES.clear()
    return Describer(
        leaf,
        lambda kind: issubclass(kind, Tensor),
        {Size: lambda value, place, around: {"type": "Size", "value": list(value)}},
        {"dtype": lambda value, place, around: {"type": "dtype"} if isinstance(value, str) else None},
    )


def scalar(kind: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "value": value}


@pytest.mark.parametrize(
    ("value", "node"),
    [
        (None, None),
        (True, scalar("bool", True)),
        (3, scalar("int", 3)),
        (1.5, scalar("float", 1.5)),
        ("mean", scalar("str", "mean")),
        (..., scalar("ellipsis", "...")),
        (slice(1, None, 2), scalar("slice", [1, None, 2])),
        (slice(Tensor(), "a"), scalar("slice", [None, None, None])),
        (2 + 1j, scalar("complex", "(2+1j)")),
        (b"ab", scalar("bytes", "b'ab'")),
        (range(3), scalar("range", "range(0, 3)")),
        ([1, (2,)], [scalar("int", 1), [scalar("int", 2)]]),
        ({"a": 1, 2: 3}, {"a": scalar("int", 1), "2": scalar("int", 3)}),
        (Point(1, None), {"x": scalar("int", 1), "y": None}),
        (Options(0.5), {"rate": scalar("float", 0.5), "inner": None}),
        (collections.OrderedDict(a=1), {"a": scalar("int", 1)}),
        (collections.deque([1]), None),
        (Size((1, 2)), scalar("Size", [1, 2])),
        (Huge((1, 2)), scalar("Size", [1, 2])),
        (np.float32(0.5), scalar("float32", 0.5)),
        (np.int64(7), scalar("int64", 7)),
        (np.bool_(True), scalar("bool", True)),
        (object(), None),
        (len, None),
        (Options, None),
        ({1, 2}, None),
    ],
    ids=stable_id,
)
def test_table(value: Any, node: Any) -> None:
    assert describer().node(value, "") == node


def test_arrays_show_their_statistics() -> None:
    node = describer().node(np.array([3.0, -4.0], np.float32), "")
    assert node == {
        "type": "numpy.ndarray",
        "dtype": "float32",
        "shape": [2],
        "Max": 3.0,
        "Min": -4.0,
        "Mean": -0.5,
        "Norm": 5.0,
    }


@pytest.mark.parametrize("array", [np.zeros(0), np.array(["a"]), np.array([None]), np.array([True])], ids=str)
def test_odd_arrays_are_described(array: Any) -> None:
    assert describer().node(array, "")["shape"] == list(array.shape)


@pytest.mark.parametrize(
    "value", [2**64, -(10**30), 10**5000, -(10**5000)], ids=["2^64", "-10^30", "10^5000", "-10^5000"]
)
def test_huge_integers_can_be_written_and_read(value: int) -> None:
    assert from_json(dumps(describer().node(value, "")))["type"] == "int"


def test_an_enum_is_its_number() -> None:
    node = json.loads(json.dumps(describer().node(Color.RED, "")))
    assert node["value"] == 1


def test_places_name_the_way_to_each_tensor() -> None:
    describe = describer()
    describe.sequence([Tensor(), [0, Tensor()], {"k": Tensor()}, Point(0, Tensor())], "E.input")
    describe.keywords({"a": Tensor()}, "E.kwargs")
    assert PLACES == ["E.input.0", "E.input.1.1", "E.input.2.k", "E.input.3.y", "E.kwargs.a"]


def test_without_a_place_none_is_made_up() -> None:
    describe = describer()
    describe.sequence([Tensor(), [Tensor()], {"k": Tensor()}, Options(0.1, Tensor())], "")
    assert PLACES == ["", "", "", ""]


def test_keyed_handlers_may_decline() -> None:
    nodes = describer().keywords({"dtype": "float32", "other": "float32"}, "")
    assert nodes == {"dtype": {"type": "dtype"}, "other": scalar("str", "float32")}
    assert describer().keywords({"dtype": 3}, "") == {"dtype": scalar("int", 3)}
    assert describer().keywords({"dtype": None}, "") == {"dtype": None}


def test_cycles_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    table: dict[str, Any] = {"self": None}
    table["self"] = [table]
    options = Options(0.1)
    options.inner = {"back": options}
    assert describer().node(loop, "") == [scalar("int", 1), None]
    assert describer().node(table, "") == {"self": [None]}
    assert describer().node(options, "")["inner"] == {"back": None}


def test_a_named_tuple_in_a_cycle_ends() -> None:
    box: list[Any] = []
    point = Point(1, box)
    box.append(point)
    assert describer().node(point, "")["y"] is not None


def test_the_same_object_twice_is_no_cycle() -> None:
    part = [1]
    assert describer().node([part, part], "") == [[scalar("int", 1)], [scalar("int", 1)]]


@pytest.mark.parametrize(
    "wrap",
    [lambda x: [x], lambda x: {"k": x}, lambda x: Point(0, x), lambda x: Options(0.0, x)],
    ids=["list", "dict", "named tuple", "dataclass"],
)
def test_deep_nesting_ends(wrap: Any) -> None:
    value: Any = Tensor()
    for _ in range(5000):
        value = wrap(value)
    json.dumps(describer().node(value, ""))
    assert PLACES == []


def test_nesting_up_to_the_limit_is_kept() -> None:
    value: Any = Tensor()
    for _ in range(DEPTH_LIMIT):
        value = [value]
    describer().node(value, "")
    assert len(PLACES) == 1


@pytest.mark.parametrize(
    "wrap", [collections.deque, set, frozenset, iter], ids=["deque", "set", "frozenset", "iterator"]
)
def test_containers_that_are_not_shown_are_nothing(wrap: Any) -> None:
    assert describer().node([wrap([Tensor()]), 1], "") == [None, scalar("int", 1)]


def leaves(node: Any) -> int:
    """How many scalars a node shows."""
    if isinstance(node, dict) and set(node) == {"type", "value"}:
        return 1
    parts = node.values() if isinstance(node, dict) else node or ()
    return sum(leaves(part) for part in parts)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "double",
    [lambda x: [x, x], lambda x: {"a": x, "b": x}, lambda x: Point(x, x), lambda x: Options(x, x)],  # type: ignore[arg-type]
    ids=["list", "dict", "named tuple", "dataclass"],
)
def test_what_is_held_twice_at_every_level_ends(double: Any) -> None:
    value: Any = 1
    for _ in range(60):
        value = double(value)
    assert 0 < leaves(describer().node([value], "")) <= PARTS_LIMIT


def test_of_a_long_list_the_first_parts_are_shown_and_that_is_told() -> None:
    told: list[str] = []
    describe = Describer(leaf, lambda kind: kind is Tensor, {}, {}, lambda what, error: told.append(str(error)))
    node = describe.sequence([list(range(2 * PARTS_LIMIT)), 1], "")
    assert [leaves(part) for part in node] == [PARTS_LIMIT - 2, 1]
    assert told == [f"it has more than {PARTS_LIMIT} parts; the first are recorded"]
    assert leaves(describe.sequence([list(range(1000))], "")) == 1000  # the next call has room of its own


def test_long_text_is_cut() -> None:
    assert len(describer().node("x" * 10**6, "")["value"]) == TEXT_LIMIT + 3
    assert len(describer().node(b"x" * 10**6, "")["value"]) <= TEXT_LIMIT + 3


class Hostile:
    """Raises at every touch that a careless walk would make."""

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __len__ = __iter__ = __bool__ = __hash__ = __repr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


def test_hostile_objects_are_nothing() -> None:
    assert describer().node([Hostile(), {"k": Hostile()}], "") == [None, {"k": None}]


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63)
        | st.floats()
        | st.text()
        | st.binary()
        | st.complex_numbers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    )
)
def test_every_value_has_a_json_form(value: Any) -> None:
    json.dumps(describer().node(value, "p"))
