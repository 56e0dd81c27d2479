"""Which of several events on different ranks came first: happens-before over matched communication.

Ranks have no common clock, and the positions of their entries say nothing about each other. What orders them is
communication: what a rank did before it gave data happened before what another did after it took them (L. Lamport,
"Time, clocks, and the ordering of events in a distributed system", 1978). The programs of all ranks are walked
together, each as far as the data it takes are there, and every event is carried along with the data.

Calls that do not wait go on when nothing else can, and so does the least advanced rank of a recording that does not
fit together (a rank or a call is missing): the walk always ends.

The first divergence of a step over all its ranks: the one that no other rank's divergence happened before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.analyze.communication import Exchange, Key, exchanges, is_communication
from msprobe.analyze.first_divergence import Divergence
from msprobe.compare.comparison import Comparison
from msprobe.numerics.verdict import Role, RowKind


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """A place in the program of a rank: its entry, and whether the communication of that entry came before it."""

    entry: int
    after: bool = True


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an event stands: ``layer`` counts the exchanges on the longest way to it, ``first`` says that no other
    event happened before it.
    """

    rank: int
    event: Event
    layer: int
    first: bool

    @property
    def order(self) -> tuple[bool, int, int, int]:
        """Sorts the earliest before all others."""
        return not self.first, self.layer, self.event.entry, self.rank


def order_events(programs: Mapping[int, Sequence[Exchange]], events: Mapping[int, Event]) -> list[Standing]:
    """The events of these ranks (at most one each), earliest first.

    ``programs`` has the communication of every rank that was recorded, also of those without an event.
    """
    return sorted(_Walk(programs, events).standings(), key=lambda standing: standing.order)


@dataclass(slots=True)
class _Shared:
    """What has been given under a key so far: the events carried along, their layer, and how many are to give."""

    expected: int
    carried: int = 0
    layer: int = 0
    given: int = 0


@dataclass(slots=True)
class _Rank:
    number: int
    program: Sequence[Exchange]
    event: Event | None
    at: int = 0
    gave: bool = False
    carried: int = 0
    layer: int = 0
    standing: Standing | None = None
    late: list[Key] = field(default_factory=list)
    unsettled: tuple[Key, ...] = ()


class _Walk:
    def __init__(self, programs: Mapping[int, Sequence[Exchange]], events: Mapping[int, Event]) -> None:
        numbers = sorted(programs.keys() | events.keys())
        self._ranks = [_Rank(number, programs.get(number, ()), events.get(number)) for number in numbers]
        self._bits = {number: 1 << place for place, number in enumerate(numbers)}
        expected = Counter(key for rank in self._ranks for exchange in rank.program for key in exchange.gives)
        self._shared = {key: _Shared(count) for key, count in expected.items()}

    def standings(self) -> list[Standing]:
        waiting = self._ranks
        while waiting:
            before = sum(rank.at for rank in self._ranks)
            for rank in waiting:
                while rank.at < len(rank.program) and self._advance(rank, released=False):
                    pass
            waiting = [rank for rank in waiting if rank.at < len(rank.program)]
            if waiting and sum(rank.at for rank in self._ranks) == before:
                self._release(waiting)
        for rank in self._ranks:
            self._merge_late(rank)
            if rank.event is not None and rank.standing is None:
                self._mark(rank)
        return [self._settled(rank) for rank in self._ranks if rank.standing is not None]

    def _release(self, waiting: list[_Rank]) -> None:
        unblocking = [rank for rank in waiting if not rank.program[rank.at].waits]
        for rank in unblocking or [min(waiting, key=lambda rank: rank.at)]:
            self._advance(rank, released=True)

    def _advance(self, rank: _Rank, *, released: bool) -> bool:
        """One exchange of a rank; False when the data it takes are not all there yet."""
        exchange = rank.program[rank.at]
        self._merge_late(rank)
        if rank.event is not None and rank.standing is None and rank.event < Event(exchange.entry, True):
            self._mark(rank)
        if not rank.gave:
            for key in exchange.gives:
                self._give(rank, self._shared[key])
            rank.gave = True
        missing = [key for key in exchange.takes if not self._complete(key)]
        if missing and not released:
            return False
        for key in exchange.takes:
            self._take(rank, key)
        rank.late += missing
        rank.layer += 1
        if rank.event is not None and rank.standing is None and rank.event.entry == exchange.entry:
            self._mark(rank)
            rank.unsettled = tuple(missing)
        rank.at, rank.gave = rank.at + 1, False
        return True

    def _complete(self, key: Key) -> bool:
        shared = self._shared.get(key)
        return shared is None or shared.given == shared.expected

    def _give(self, rank: _Rank, shared: _Shared) -> None:
        shared.carried |= rank.carried
        shared.layer = max(shared.layer, rank.layer)
        shared.given += 1

    def _take(self, rank: _Rank, key: Key) -> None:
        shared = self._shared.get(key)
        if shared is not None and self._complete(key):
            rank.carried |= shared.carried
            rank.layer = max(rank.layer, shared.layer)

    def _merge_late(self, rank: _Rank) -> None:
        for key in [key for key in rank.late if self._complete(key)]:
            self._take(rank, key)
            rank.late.remove(key)

    def _mark(self, rank: _Rank) -> None:
        assert rank.event is not None
        rank.standing = Standing(rank.number, rank.event, rank.layer, rank.carried == 0)
        rank.carried |= self._bits[rank.number]

    def _settled(self, rank: _Rank) -> Standing:
        """The standing of an event at data that came later than the walk went on."""
        standing = rank.standing
        assert standing is not None
        came_with = 0
        for key in rank.unsettled:
            shared = self._shared.get(key)
            came_with |= shared.carried if shared is not None else 0
        if came_with & ~self._bits[rank.number]:
            return Standing(standing.rank, standing.event, standing.layer, False)
        return standing


@dataclass(slots=True)
class RankFinding:
    """What one rank contributes: its communication, and where it diverged first (``entry`` is None where it did not).

    ``after`` is False when a communication call was given what differs already.
    """

    rank: int
    program: list[Exchange] = field(default_factory=list)
    entry: int | None = None
    after: bool = True


def rank_finding(comparison: Comparison, rank: int, found: Divergence | None) -> RankFinding:
    """The contribution of one compared dump pair. Positions are those of the entries of its table."""
    program = exchanges(rank, _entries(comparison))
    if found is None:
        return RankFinding(rank, program)
    return RankFinding(rank, program, found.entry, after=not _given_differs(comparison, found.entry))


def earliest(findings: Sequence[RankFinding]) -> list[Standing]:
    """The divergences of the ranks of a step, earliest first."""

    events = {found.rank: Event(found.entry, found.after) for found in findings if found.entry is not None}
    return order_events({found.rank: found.program for found in findings}, events)


def rank_numbers(places: Iterable[tuple[str, int | None]]) -> list[int]:
    """A number for each place (kind and number): its own for a rank, the next free one for other processes."""
    known = list(places)
    free = max((number for kind, number in known if kind == "rank" and number is not None), default=-1)
    numbers = []
    for kind, number in known:
        if kind == "rank" and number is not None:
            numbers.append(number)
        else:
            free += 1
            numbers.append(free)
    return numbers


def _entries(comparison: Comparison) -> Iterator[tuple[int, str, Any]]:
    for position, pair in enumerate(comparison.table.entries):
        name = pair.target if pair.target is not None else pair.golden
        data = comparison.target.data if pair.target is not None else comparison.golden.data
        if name is not None and is_communication(name):
            yield position, name, data[name]


def _given_differs(comparison: Comparison, entry: int) -> bool:
    rows = slice(int(comparison.table.starts[entry]), int(comparison.table.starts[entry + 1]))
    differs = comparison.judged.kind[rows] > RowKind.UNCHECKED
    return bool((differs & (comparison.measured.role[rows] != Role.RESULT)).any())
