"""Which rank of a run that died stopped first.

When one rank dies, the others wait for it in a communication call until they are killed, so each rank leaves a journal.
The rank whose last step is the earliest stopped first. Of several ranks in the same step it is the one that completed
the fewest exchanges there (``rank_order``). Ranks that cannot be told apart are named together, and where that would be
all of them, none is named: they were ended together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msprobe.analyze.communication import exchanges
from msprobe.analyze.rank_order import Event, order_events
from msprobe.compare.records.run_end import end_place
from msprobe.core.errors import ReadError
from msprobe.core.store.layout import JOURNAL
from msprobe.core.store.reader import Place, load_dump

_LISTED = 8


def stopped_first_notes(places: tuple[Sequence[Place], Sequence[Place]]) -> list[str]:
    """Return a sentence for each side, target and golden run, on which ranks stopped before the others."""
    sentences = (stopped_first(own, side) for own, side in zip(places, ("target", "golden run"), strict=True))
    return [sentence for sentence in sentences if sentence]


def stopped_first(places: Sequence[Place], side: str) -> str | None:
    """Return a sentence that names the ranks that stopped first; None where no rank died, or none before the others.

    Args:
        places: the dumps of all steps and ranks of one run.
        side: the words for the run, such as ``target``.
    """
    last = _last_places(places)
    if len(last) < 2 or not any(map(_is_unfinished, last.values())):
        return None
    step = min(place.step or 0 for place in last.values())
    first = {rank: place for rank, place in last.items() if (place.step or 0) == step}
    unfinished = {rank: place for rank, place in first.items() if _is_unfinished(place)}
    ranks = list(unfinished or first)
    if len(ranks) > 1 and unfinished:
        ranks = _fewest_exchanges(unfinished)
    if len(ranks) == len(last):
        return None
    stage = "in" if unfinished else "after"
    where = "" if next(iter(first.values())).step is None else f", {stage} step {step}"
    text = f"{_names(ranks)} of the {side} stopped first{where}"
    return text if len(ranks) > 1 or not unfinished else text + _where_records_end(unfinished[ranks[0]])


def _where_records_end(place: Place) -> str:
    """Return in words at which call the records of a rank end; "" where they cannot be read."""
    try:
        dump = load_dump(place)
    except ReadError:
        return ""
    return f"; its records end {end_place(dump)}" if dump.data else ""


def _last_places(places: Iterable[Place]) -> dict[int, Place]:
    """Return the place of the last step of each rank."""
    last: dict[int, Place] = {}
    for place in places:
        if place.kind != "rank" or place.number is None:
            continue
        known = last.get(place.number)
        if known is None or (known.step or 0) < (place.step or 0):
            last[place.number] = place
    return last


def _is_unfinished(place: Place) -> bool:
    return place.document.with_name(JOURNAL).is_file()


def _fewest_exchanges(places: dict[int, Place]) -> list[int]:
    """Return the ranks that completed the fewest exchanges of a step; all of them where a dump cannot be read."""
    programs, ends = {}, {}
    try:
        for rank, place in places.items():
            data = load_dump(place).data
            programs[rank] = exchanges(rank, ((index, name, body) for index, (name, body) in enumerate(data.items())))
            ends[rank] = Event(len(data))
    except ReadError:
        return list(places)
    standings = order_events(programs, ends)
    fewest = min(standing.layer for standing in standings)
    return sorted(standing.rank for standing in standings if standing.layer == fewest)


def _names(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = f" and {len(ranks) - _LISTED} more" if len(ranks) > _LISTED else ""
    return f"ranks {', '.join(map(str, ranks[:_LISTED]))}{more}"
