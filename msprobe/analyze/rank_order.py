"""Which of several events on different ranks happened first.

Ranks have no common clock, and the positions of their entries cannot be compared. Communication orders them: what a
rank did before it sent data happened before what another rank did after it received them (L. Lamport, "Time, clocks,
and the ordering of events in a distributed system", 1978). ``order_events`` replays the communication of all ranks
together, each rank as far as the data that it receives have been sent, and hands every event on with the data.

A call that does not wait goes on when no other rank can. So does the least advanced rank of a recording that does not
fit together, because a rank or a call is missing. So the replay always ends.

``earliest`` applies this to the first divergences of the ranks of one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe.analyze.communication import Exchange, Key, exchanges
from msprobe.analyze.first_divergence import Divergence
from msprobe.compare.comparison import Comparison
from msprobe.core.naming.names import is_communication
from msprobe.numerics.verdict import Role, RowKind


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """Something that happened on a rank.

    Args:
        entry: the position of the entry at which it happened.
        after: whether it happened after the communication of that entry.
    """

    entry: int
    after: bool = True


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an event stands among those of all ranks.

    Args:
        rank: the rank on which it happened.
        event: the event.
        layer: the number of exchanges on the longest way to it.
        first: whether no event of another rank happened before it.
    """

    rank: int
    event: Event
    layer: int
    first: bool

    @property
    def order(self) -> tuple[bool, int, int, int]:
        """Return the sort key: the earliest event comes first."""
        return not self.first, self.layer, self.event.entry, self.rank


def order_events(programs: Mapping[int, Sequence[Exchange]], events: Mapping[int, Event]) -> list[Standing]:
    """Return the events, earliest first.

    Args:
        programs: the communication of every recorded rank, also of ranks without an event.
        events: the event of each rank that has one.
    """
    return sorted(_Replay(programs, events).standings(), key=lambda standing: standing.order)


@dataclass(slots=True)
class _SentData:
    """What has been sent under a key so far.

    Args:
        expected: how many ranks send under this key.
        events: the events that happened before, as bits.
        layer: the largest layer of a sender.
        sent: how many ranks have sent.
    """

    expected: int
    events: int = 0
    layer: int = 0
    sent: int = 0


@dataclass(slots=True)
class _Rank:
    """A rank during the replay.

    Args:
        next_call: the index of its next exchange.
        has_sent: whether it has sent the data of that exchange.
        events: the events that happened before, as bits.
        layer: the number of exchanges on the longest way to its present state.
        standing: where its event stands, once it has happened.
        late: keys whose data it went on without.
        late_at_event: those of them that the exchange of its event receives.
    """

    number: int
    program: Sequence[Exchange]
    event: Event | None
    next_call: int = 0
    has_sent: bool = False
    events: int = 0
    layer: int = 0
    standing: Standing | None = None
    late: list[Key] = field(default_factory=list)
    late_at_event: tuple[Key, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Return whether all exchanges have been replayed."""
        return self.next_call >= len(self.program)


class _Replay:
    """Replays the communication of all ranks."""

    def __init__(self, programs: Mapping[int, Sequence[Exchange]], events: Mapping[int, Event]) -> None:
        numbers = sorted(programs.keys() | events.keys())
        self._ranks = [_Rank(number, programs.get(number, ()), events.get(number)) for number in numbers]
        self._bits = {number: 1 << index for index, number in enumerate(numbers)}
        expected = Counter(key for rank in self._ranks for exchange in rank.program for key in exchange.sends)
        self._data = {key: _SentData(count) for key, count in expected.items()}

    def standings(self) -> list[Standing]:
        """Return where the events stand, by rank."""
        waiting = self._ranks
        while waiting:
            before = sum(rank.next_call for rank in self._ranks)
            for rank in waiting:
                while not rank.has_ended and self._advance(rank, released=False):
                    pass
            waiting = [rank for rank in waiting if not rank.has_ended]
            if waiting and sum(rank.next_call for rank in self._ranks) == before:
                self._release(waiting)
        for rank in self._ranks:
            self._merge_late(rank)
            if rank.event is not None and rank.standing is None:
                self._mark(rank)
        return [self._final_standing(rank) for rank in self._ranks if rank.standing is not None]

    def _release(self, waiting: list[_Rank]) -> None:
        """Let ranks go on without data: those whose call does not wait, or else the least advanced one."""
        unblocking = [rank for rank in waiting if not rank.program[rank.next_call].waits]
        for rank in unblocking or [min(waiting, key=lambda rank: rank.next_call)]:
            self._advance(rank, released=True)

    def _advance(self, rank: _Rank, *, released: bool) -> bool:
        """Replay one exchange of a rank; return False when not all data that it receives have been sent."""
        exchange = rank.program[rank.next_call]
        self._merge_late(rank)
        if rank.event is not None and rank.standing is None and rank.event < Event(exchange.entry, True):
            self._mark(rank)
        if not rank.has_sent:
            for key in exchange.sends:
                self._send(rank, self._data[key])
            rank.has_sent = True
        missing = [key for key in exchange.receives if not self._is_complete(key)]
        if missing and not released:
            return False
        for key in exchange.receives:
            self._receive(rank, key)
        rank.late += missing
        rank.layer += 1
        if rank.event is not None and rank.standing is None and rank.event.entry == exchange.entry:
            self._mark(rank)
            rank.late_at_event = tuple(missing)
        rank.next_call, rank.has_sent = rank.next_call + 1, False
        return True

    def _is_complete(self, key: Key) -> bool:
        data = self._data.get(key)
        return data is None or data.sent == data.expected

    def _send(self, rank: _Rank, data: _SentData) -> None:
        data.events |= rank.events
        data.layer = max(data.layer, rank.layer)
        data.sent += 1

    def _receive(self, rank: _Rank, key: Key) -> None:
        data = self._data.get(key)
        if data is not None and self._is_complete(key):
            rank.events |= data.events
            rank.layer = max(rank.layer, data.layer)

    def _merge_late(self, rank: _Rank) -> None:
        """Receive what has arrived of the data that the rank went on without."""
        for key in [key for key in rank.late if self._is_complete(key)]:
            self._receive(rank, key)
            rank.late.remove(key)

    def _mark(self, rank: _Rank) -> None:
        """Note that the event of a rank has happened."""
        assert rank.event is not None
        rank.standing = Standing(rank.number, rank.event, rank.layer, rank.events == 0)
        rank.events |= self._bits[rank.number]

    def _final_standing(self, rank: _Rank) -> Standing:
        """Return the standing of an event, with the events that arrived in late data of its own exchange."""
        standing = rank.standing
        assert standing is not None
        late_events = 0
        for key in rank.late_at_event:
            data = self._data.get(key)
            late_events |= data.events if data is not None else 0
        if late_events & ~self._bits[rank.number]:
            return Standing(standing.rank, standing.event, standing.layer, False)
        return standing


@dataclass(slots=True)
class RankFinding:
    """What one rank contributes to the order of divergences.

    Args:
        rank: its number.
        program: its communication.
        entry: the position of its first divergence; None where it has none.
        after: False when that entry is a communication call whose inputs differ already.
        received: whether that entry is a communication call of which the result alone differs: another rank sent it.
    """

    rank: int
    program: list[Exchange] = field(default_factory=list)
    entry: int | None = None
    after: bool = True
    received: bool = False


def rank_finding(comparison: Comparison, rank: int, divergence: Divergence | None) -> RankFinding:
    """Return the contribution of one compared pair of dumps; positions are those of the entries of its table."""
    program = exchanges(rank, _communication_entries(comparison))
    if divergence is None:
        return RankFinding(rank, program)
    after = not _inputs_differ(comparison, divergence.entry)
    received = after and any(exchange.entry == divergence.entry and exchange.receives for exchange in program)
    return RankFinding(rank, program, divergence.entry, after=after, received=received)


def earliest(findings: Sequence[RankFinding]) -> list[Standing]:
    """Return the first divergences of the ranks of a step, earliest first; what a rank received comes after what ranks
    made, as no clock is needed to know that another rank sent it."""
    events = {finding.rank: Event(finding.entry, finding.after) for finding in findings if finding.entry is not None}
    received = {finding.rank for finding in findings if finding.received}
    standings = order_events({finding.rank: finding.program for finding in findings}, events)
    return sorted(standings, key=lambda standing: standing.rank in received)


def _communication_entries(comparison: Comparison) -> Iterator[tuple[int, str, Any]]:
    for position, pair in enumerate(comparison.table.entries):
        data = comparison.target.data if pair.target is not None else comparison.golden.data
        if is_communication(pair.name):
            yield position, pair.name, data[pair.name]


def _inputs_differ(comparison: Comparison, entry: int) -> bool:
    if entry == len(comparison.table.entries):  # no call is named
        return False
    rows = slice(int(comparison.table.starts[entry]), int(comparison.table.starts[entry + 1]))
    differs = comparison.judged.kind[rows] > RowKind.UNCHECKED
    return bool((differs & (comparison.measured.role[rows] != Role.RESULT)).any())
