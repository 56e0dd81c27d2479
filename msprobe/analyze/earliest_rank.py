"""The first divergence of a step over all its ranks: the one that no other rank's divergence happened before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.analyze.communication import Exchange, exchanges, is_communication
from msprobe.analyze.first_divergence import Divergence
from msprobe.compare.run import Comparison
from msprobe.numerics.verdict import Kind, Role

if TYPE_CHECKING:
    from msprobe.analyze.rank_order import Standing


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
    from msprobe.analyze.rank_order import Event, order_events  # only where something diverged

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
    differs = comparison.judged.kind[rows] > Kind.UNCHECKED
    return bool((differs & (comparison.measured.role[rows] != Role.RESULT)).any())
