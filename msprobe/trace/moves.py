"""The calls that only move values, which a dump lists beside its entries: through them a value without a recorded maker
is followed to the results that it was made from.

A move names shapes and no values. So it is followed by the shapes, from the last move before a call backwards, to a
result that may hold the same elements: as many with the same statistics, or a part or the whole of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import PARAMETER
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.trace.leaves import as_float, element_count, is_shape
from msprobe.trace.likeness import NEAR, is_part, same_values
from msprobe.trace.trace import Call, Value
from msprobe.trace.values import Signature, signature_of

_Shape = tuple[int, ...]
_IN_ORDER = frozenset({
    *("view", "view_as", "reshape", "reshape_as", "ravel", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *("contiguous", "clone", "type_as", "to", "float", "double", "half", "bfloat16", "__neg__"),
})
"""Functions that leave elements in their order; ``reshape`` copies what a view before it has put into another one."""
_LONGEST = 64
"""How many moves a value is followed through: code moves it by a few, and some programs index every element."""


class Move(NamedTuple):
    """A call that only moves values.

    Attributes:
        name: as an entry of it would be named.
        given, made: the shapes of what it gets, and returns.
        number: that of the next recorded call.
        parent: the module call around it.
        line: the innermost frame of the program.
    """

    name: str
    given: tuple[_Shape, ...]
    made: tuple[_Shape, ...]
    number: int
    parent: str | None
    line: str | None

    @property
    def turns(self) -> bool:
        """Whether it changes the sign."""
        return _function(self) == "__neg__"

    @property
    def reorders(self) -> bool:
        """Whether the elements may stand in another order than before: in a part of one tensor they do not."""
        return _function(self) not in _IN_ORDER and not (self.chooses and len(self.given) == 1)

    @property
    def chooses(self) -> bool:
        """Whether it returns some elements of what it gets, or joins several tensors."""
        return sum(map(math.prod, self.made)) != sum(map(math.prod, self.given)) or len(self.given) != len(self.made)


class Trail(NamedTuple):
    """How a value came to where a call gets it: through these moves, the last one first, from these results."""

    moves: tuple[Move, ...]
    sources: tuple[Value, ...]

    def decisive(self, *, reordered: bool) -> Move | None:
        """Return the last move that may make a value wrong; None where there is none.

        Args:
            reordered: whether the value has the right elements in another order; else other elements are chosen.
        """
        likely = (move for move in self.moves if (move.reorders if reordered else move.chooses))
        return next(likely, next(iter(self.moves), None))


class Moves:
    """The moves of one run.

    Args:
        dump: the dump of a step.
        calls: its calls, numbered in the order in which they end.
    """

    def __init__(self, dump: Dump, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._moves = sorted(_read(dump, {call.name for call in calls}), key=lambda move: move.number)
        self._by_made: dict[_Shape, list[int]] = {}
        for at, move in enumerate(self._moves):
            for shape in set(move.made):
                self._by_made.setdefault(shape, []).append(at)

    def __bool__(self) -> bool:
        return bool(self._moves)

    def behind(self, value: Value) -> Trail:
        """Return how a value came to the call that gets it; a parameter comes from nowhere."""
        if signature_of(value.raw) in self._parameters:
            return Trail((), ())
        moves: list[int] = []
        sources: list[Value] = []
        end = bisect_right(self._moves, value.call.begin, key=lambda move: move.number)
        waiting = [(_shape_of(value.raw.get("shape")), end)]
        while waiting and len(moves) < _LONGEST:
            shape, before = waiting.pop()
            raw = _turned(value.raw) if any(self._moves[at].turns for at in moves) else value.raw
            source = self._source(value, raw, (shape, self._moves[before].number), sources) if moves else None
            at = self._last(shape, before, moves)
            if source is not None:
                sources.append(source)
            elif at is not None:
                moves.append(at)
                waiting += [(one, at) for one in reversed(self._moves[at].given)]
        return Trail(tuple(self._moves[at] for at in moves), tuple(source.root for source in sources))

    def _last(self, shape: _Shape | None, before: int, known: Sequence[int]) -> int | None:
        """Return the last move to this shape before one, beside the known ones; None where there is none."""
        made = [] if shape is None else self._by_made.get(shape, [])
        place = bisect_left(made, before) - 1
        while place >= 0 and made[place] in known:
            place -= 1
        return made[place] if place >= 0 else None

    def _source(
        self, value: Value, raw: Any, before: tuple[_Shape | None, int], known: Sequence[Value]
    ) -> Value | None:
        """Return the last result of a shape before a call, beside the known ones, of which a value may be made that was
        ``raw`` there, first among those that no call gets before it does; None where there is none."""
        shape, number = before
        results = self._by_shape.get(shape, [])
        found = reversed(results[: bisect_right(results, number - 1, key=lambda one: one.call.number)])
        fitting = [one for one in found if one not in known and _holds(one.raw, raw)]
        fresh = (one for one in fitting if all(user.call.number >= value.call.number for user in one.root.users))
        return next(fresh, next(iter(fitting), None))

    @cached_property
    def _parameters(self) -> set[Signature | None]:
        given = (value for call in self._calls for value in call.given if value.leaf.slot == PARAMETER)
        return {signature_of(value.raw) for value in given} - {None}

    @cached_property
    def _by_shape(self) -> dict[_Shape | None, list[Value]]:
        found: dict[_Shape | None, list[Value]] = {}
        for call in self._calls:
            for value in call.returned:
                found.setdefault(_shape_of(value.raw.get("shape")), []).append(value)
        return found


def _function(move: Move) -> str:
    return move.name.split(".")[1] if "." in move.name else move.name


def _turned(raw: Any) -> dict[str, Any]:
    """Return a record with the sign of its elements changed, as far as statistics say."""
    turned = dict(raw)
    for one, other in ((LARGEST, SMALLEST), (SMALLEST, LARGEST)):
        turned[one.name] = -as_float(raw.get(other.name))
    return turned


def _holds(source: Any, raw: Any) -> bool:
    """Return whether a tensor may be made of elements of another one, or of that and others."""
    own, other = element_count(source), element_count(raw)
    if own == other:
        return same_values(source, raw, NEAR)
    return is_part(source, raw) if own < other else is_part(raw, source)


def _read(dump: Dump, names: set[str]) -> Iterator[Move]:
    """Yield the moves that a dump lists; what is damaged is left out."""
    listed = dump.header.get("moves")
    passed = [0, *accumulate(int(name in names) for name in dump.data)]
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("call"), str) or type(item.get("after")) is not int:
            continue
        given, made = (tuple(_shapes(item.get(key))) for key in ("from", "to"))
        number = passed[min(max(item["after"], 0), len(passed) - 1)]
        yield Move(item["call"], given, made, number, _text(item.get("parent")), _text(item.get("line")))


def _shapes(places: Any) -> Iterator[_Shape]:
    for place in places if isinstance(places, list) else ():
        lengths = place.partition(" ")[0].split(",") if isinstance(place, str) else ()
        if all(map(str.isdecimal, filter(None, lengths))):
            yield tuple(int(length) for length in lengths if length)


def _shape_of(shape: Any) -> _Shape | None:
    return tuple(shape) if is_shape(shape) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
