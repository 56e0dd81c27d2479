"""Which dumps become graphs or pairs of graphs, and the step and rank numbers they are shown with.

The numbers are those of the folders. A folder without a number counts as 0; where two folders of a step would share
one, each further one gets the next free number and the log says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msprobe.compare.alignment.options import MappingOptions, numbers
from msprobe.compare.locate import locate
from msprobe.core.errors import NotComparableError
from msprobe.core.log import logger
from msprobe.core.store.reader import Place, find_dumps
from msprobe.visualize.node import Work


def find_work(target: Path, golden: Path | None, mapping: MappingOptions) -> tuple[list[Work], list[str]]:
    """What to do, in order of step and rank, and a line for each dump without a partner.

    ``mapping`` says which ranks and steps of the target, and how both sides pair.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: no dump of one side belongs to one of the other.
    """
    if golden is None:
        places = _wanted(find_dumps(target), mapping)
        shown = _numbers(places)
        return [Work(place, None, *shown[place]) for place in places], []
    located = locate(target, golden, mapping)
    shown = _numbers([ours for ours, _ in located.pairs])
    return [Work(ours, theirs, *shown[ours]) for ours, theirs in located.pairs], located.unpaired


def _wanted(places: list[Place], mapping: MappingOptions) -> list[Place]:
    """Only these ranks and steps."""
    ranks, steps = numbers("rank", mapping.rank), numbers("step", mapping.step)
    found = [place for place in places if (not ranks or place.number in ranks) and (not steps or place.step in steps)]
    if not found:
        asked = ", ".join(f"{name} {text}" for name, text in (("rank", mapping.rank), ("step", mapping.step)) if text)
        raise NotComparableError(f"no dump is of {asked}")
    return found


def _numbers(places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    found: dict[Place, tuple[int, int]] = {}
    used: set[tuple[int, int]] = set()
    for place in sorted(places, key=lambda place: place.kind != "rank"):
        step = place.step or 0
        rank = place.number or 0 if place.kind == "rank" else 0
        while (step, rank) in used:
            rank += 1
        if place.kind != "rank" and rank:
            logger.info("%s is shown as rank %d.", place.document.parent, rank)
        used.add((step, rank))
        found[place] = step, rank
    return found
