"""The calls that only move values, which a dump lists beside its entries: through them a value without a recorded maker
is followed to the results that it was made from.

A move names shapes and no values. So it is followed by the shapes, and by the storages where memory is recorded, from
the last move before a call backwards to a result that may hold the same elements: as many with the same statistics, or
a part or the whole of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice, product, takewhile
from typing import Any, NamedTuple

from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import OUTPUT, PARAMETER
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.trace.leaves import as_float, element_count, is_shape
from msprobe.trace.likeness import NEAR, is_complex, is_part, is_telling, same_values
from msprobe.trace.trace import Call, Value
from msprobe.trace.values import Signature, memory_of, signature_of

_IN_ORDER = frozenset({
    *("view", "view_as", "reshape", "reshape_as", "ravel", "flatten", "unflatten", "squeeze", "unsqueeze"),
    *("contiguous", "clone", "type_as", "to", "float", "double", "half", "bfloat16", "__neg__"),
    *("conj", "view_as_complex", "view_as_real"),
})
"""Functions that leave elements in their order; ``reshape`` copies what a view before it has put into another one."""
_LONGEST = 64
"""How many moves a value is followed through: code moves it by a few."""
_TRIED = 4
"""How many of the last moves to a place are looked at: several values of one shape are moved in one way."""
_NEAR_BY = 64
"""How many results are looked at that are no source: code moves what it has made shortly before."""


class _Place(NamedTuple):
    """Where a tensor is looked for: its shape, and the storage that it lies in; "" where none is recorded."""

    shape: tuple[int, ...]
    storage: str


class Move(NamedTuple):
    """A call that only moves values.

    Attributes:
        name: as an entry of it would be named.
        given, made: the places of what it gets, and returns.
        number: that of the next recorded call.
        parent: the module call around it.
        line: the innermost frame of the program.
        cast: the dtypes of what it gets and returns where it converts, as they are recorded.
    """

    name: str
    given: tuple[_Place, ...]
    made: tuple[_Place, ...]
    number: int
    parent: str | None
    line: str | None
    cast: tuple[str, ...] = ()

    @property
    def turns(self) -> bool:
        """Whether it changes the sign."""
        return _function(self) == "__neg__"

    def does_as(self, other: Move) -> bool:
        """Return whether another move is of the same function and shapes."""
        places = (self.given, other.given), (self.made, other.made)
        shapes = ([[place.shape for place in one] for one in both] for both in places)
        return _function(self) == _function(other) and all(own == one for own, one in shapes)

    @property
    def reorders(self) -> bool:
        """Whether the elements may stand in another order than before: in a part of one tensor they do not."""
        return _function(self) not in _IN_ORDER and not (self.chooses and len(self.given) == 1)

    @property
    def chooses(self) -> bool:
        """Whether it returns some elements of what it gets, or joins several tensors."""
        given, made = (sum(math.prod(place.shape) for place in places) for places in (self.given, self.made))
        return given != made or len(self.given) != len(self.made)


class Trail(NamedTuple):
    """How a value came to where a call gets it: through these moves, the last one first, from these results."""

    moves: tuple[Move, ...]
    sources: tuple[Value, ...]

    def decisive(self, right: Sequence[Move] = (), *, reordered: bool) -> Move | None:
        """Return the last move that may make a value wrong; None where there is none.

        Args:
            right: the moves of a right value, the last one first: the last ones that are the same are right, too.
            reordered: whether the value has the right elements in another order; else other elements are chosen.
        """
        pairs = zip(self.moves, right, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0].does_as(pair[1]), pairs))
        moves = self.moves[same:] or self.moves
        likely = (move for move in moves if (move.reorders if reordered else move.chooses))
        return next(likely, next(iter(moves), None))


class Moves:
    """The moves of one run.

    Args:
        dump: the dump of a step.
        calls: its calls, numbered in the order in which they end.
    """

    def __init__(self, dump: Dump, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._moves = moves_of(dump, {call.name for call in calls})
        self._known: dict[int, Trail] = {}  # by the id of a value
        self._by_made: dict[_Place, list[int]] = {}
        for at, move in enumerate(self._moves):
            for place in set(move.made):
                self._by_made.setdefault(place, []).append(at)

    def __bool__(self) -> bool:
        return bool(self._moves)

    def behind(self, value: Value) -> Trail:
        """Return how a value came to the call that gets it; a parameter comes from nowhere."""
        if id(value) not in self._known:
            is_parameter = signature_of(value.raw) in self._parameters
            self._known[id(value)] = Trail((), ()) if is_parameter else self._follow(value)
        return self._known[id(value)]

    def _follow(self, value: Value) -> Trail:
        number = value.call.number if value.leaf.slot == OUTPUT else value.call.begin
        end = bisect_right(self._moves, number, key=lambda move: move.number)
        first: Trail | None = None
        for last in self._last(_place_of(value.raw), end, _TRIED, ()):
            moves, sources = self._back(value, last)
            before = (move for one in sources if one.origin is not None for move in self.behind(one).moves)
            passed = (*(self._moves[at] for at in moves), *before)
            trail = Trail(passed, tuple(dict.fromkeys(one.root for one in sources)))
            if first is None:
                first = trail
            if any(_has_extremes(one.raw, value.raw) for one in trail.sources):
                return trail
        if first is not None and any(_shares_extreme(one.raw, value.raw) for one in first.sources):
            return first
        copied = self._with_extremes(value)
        return first if first is not None and not copied else Trail((), copied)

    def _with_extremes(self, value: Value) -> tuple[Value, ...]:
        """Return the last results before a call that have the extremes of a value: copies without a record (an index)
        leave these, and hardly anything else makes them again."""
        found = []
        for name, by_extreme in self._by_extreme.items():
            results = by_extreme.get(as_float(value.raw.get(name)), [])
            end = bisect_left(results, value.call.begin, key=lambda one: one.call.number)
            found += results[max(0, end - 1) : end]
        sizes = (sorted((one.raw, value.raw), key=element_count) for one in found)
        return tuple(
            dict.fromkeys(one for one, (part, whole) in zip(found, sizes, strict=True) if is_part(part, whole))
        )

    @cached_property
    def _by_extreme(self) -> dict[str, dict[float, list[Value]]]:
        """By extreme and number the results with it, in the order of execution, where the number tells something."""
        found: dict[str, dict[float, list[Value]]] = {LARGEST.name: {}, SMALLEST.name: {}}
        for call in self._calls:
            for name, value in product(found, call.returned):
                if is_telling(number := as_float(value.raw.get(name))):
                    found[name].setdefault(number, []).append(value)
        return found

    def _back(self, value: Value, last: int) -> tuple[list[int], list[Value]]:
        """Return the moves by which a value came to a call, from the ``last`` one back, and what they moved."""
        moves: list[int] = []
        sources: list[Value] = []
        waiting: list[tuple[_Place | None, int, int, bool]] = []
        raw, made, alone = value.raw, [last], True
        while made or (waiting and len(moves) < _LONGEST):
            for at in made:
                move = self._moves[at]
                moves.append(at)
                raw = _turned(raw) if move.turns else raw
                one = alone and len(move.given) == 1
                waiting += [(place, times, at, one) for place, times in reversed(Counter(move.given).items())]
            if not waiting:
                break
            place, count, before, alone = waiting.pop()
            found = self._results(value, raw, (place, self._moves[before].number), count, alone=alone)
            sources += found
            made = [] if len(found) == count else self._last(place, before, count - len(found), moves)
        return moves, sources

    def _last(self, place: _Place | None, before: int, count: int, known: Sequence[int]) -> list[int]:
        """Return the last moves to this place before one, beside the known ones, ``count`` at most."""
        made = [] if place is None else self._by_made.get(place, [])
        last = reversed(made[: bisect_left(made, before)])
        return list(islice((at for at in last if at not in known), count))

    def _results(
        self, value: Value, raw: Any, before: tuple[_Place | None, int], count: int, *, alone: bool
    ) -> list[Value]:
        """Return the last results in a place before a call, ``count`` at most, of which a value may be made that was
        ``raw`` there, ``alone`` or with others: first those that no call gets before it does."""
        place, number = before
        results = self._by_place.get(place, [])
        end = bisect_right(results, number - 1, key=lambda one: one.call.number)
        near = reversed(results[max(0, end - count - _NEAR_BY) : end])
        fitting = [one for one in near if _holds(one.raw, raw, alone=alone)]
        # a stable order: the last ones first
        fitting.sort(key=lambda one: self._first_uses.get(id(one.root), math.inf) < value.call.number)
        return fitting[:count]

    @cached_property
    def _first_uses(self) -> dict[int, int]:
        """By the id of a value the number of the first call with it behind the one that made it."""
        users = (value for call in reversed(self._calls) for value in call.values if value.origin)
        return {id(value.origin): value.call.number for value in users}

    @cached_property
    def _parameters(self) -> set[Signature | None]:
        given = (value for call in self._calls for value in call.given if value.leaf.slot == PARAMETER)
        return {signature_of(value.raw) for value in given} - {None}

    @cached_property
    def _by_place(self) -> dict[_Place | None, list[Value]]:
        found: dict[_Place | None, list[Value]] = {}
        for call in self._calls:
            for value in call.returned:
                found.setdefault(_place_of(value.raw), []).append(value)
        return found


def moves_of(dump: Dump, names: Container[str]) -> list[Move]:
    """Return the moves that a dump lists, in the order in which they were made.

    Args:
        dump: the dump of a step.
        names: the calls that are numbered, in the order of the dump.
    """
    return sorted(_read(dump, names), key=lambda move: move.number)


def _function(move: Move) -> str:
    return move.name.split(".")[1] if "." in move.name else move.name


def _turned(raw: Any) -> dict[str, Any]:
    """Return a record with the sign of its elements changed, as far as statistics say."""
    turned = dict(raw)
    for one, other in ((LARGEST, SMALLEST), (SMALLEST, LARGEST)):
        turned[one.name] = -as_float(raw.get(other.name))
    return turned


def _holds(source: Any, raw: Any, *, alone: bool) -> bool:
    """Return whether a tensor may be made of elements of another one ``alone``, or of that and others."""
    own, other = element_count(source), element_count(raw)
    if is_complex(source) and not is_complex(raw):  # of complex numbers the magnitudes are recorded
        return max(abs(as_float(raw.get(spec.name))) for spec in (LARGEST, SMALLEST)) <= as_float(
            source.get(LARGEST.name)
        )
    if own == other:
        return same_values(source, raw, NEAR)
    if own > other:
        return is_part(raw, source)
    return is_part(source, raw) and (not alone or _has_extremes(source, raw))


def _shares_extreme(source: Any, raw: Any) -> bool:
    """Return whether two tensors have the same largest, or the same smallest element."""
    return any(as_float(source.get(spec.name)) == as_float(raw.get(spec.name)) for spec in (LARGEST, SMALLEST))


def _has_extremes(source: Any, raw: Any) -> bool:
    """Return whether two tensors have the same largest and smallest element."""
    return all(as_float(source.get(spec.name)) == as_float(raw.get(spec.name)) for spec in (LARGEST, SMALLEST))


def _read(dump: Dump, names: Container[str]) -> Iterator[Move]:
    """Yield the moves that a dump lists; what is damaged is left out."""
    listed = dump.header.get("moves")
    passed = [0, *accumulate(int(name in names) for name in dump.data)]
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("call"), str) or type(item.get("after")) is not int:
            continue
        given, made = (tuple(_places(item.get(key))) for key in ("from", "to"))
        number = passed[min(max(item["after"], 0), len(passed) - 1)]
        cast = item.get("cast")
        dtypes = tuple(map(str, cast)) if isinstance(cast, list) and len(cast) == 2 else ()
        yield Move(item["call"], given, made, number, _text(item.get("parent")), _text(item.get("line")), dtypes)


def _places(places: Any) -> Iterator[_Place]:
    for place in places if isinstance(places, list) else ():
        shape, _, memory = place.partition(" ") if isinstance(place, str) else ("x", "", "")
        lengths = [length for length in shape.split(",") if length]
        if all(map(str.isdecimal, lengths)):
            yield _Place(tuple(map(int, lengths)), memory.partition(".")[0].partition(" ")[0])


def _place_of(raw: Any) -> _Place | None:
    shape, memory = raw.get("shape"), memory_of(raw)
    return _Place(tuple(shape), memory.storage if memory is not None else "") if is_shape(shape) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
