"""Which dumps become graphs or pairs of graphs, and the step and rank numbers they are shown with.

The numbers are those of the folders. A folder without a number counts as 0. Where two folders of a step would have the
same number, each further one gets the next free number and the log says which.
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
    """Return what to draw, in the order of steps and ranks, and a line for each dump without a partner.

    ``mapping`` says which ranks and steps of the target, and how both sides pair.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: no dump of one side belongs to one of the other.
    """
    if golden is None:
        places = _selected(find_dumps(target), mapping)
        shown = _shown_numbers(places)
        return [Work(place, None, *shown[place]) for place in places], []
    located = locate(target, golden, mapping)
    shown = _shown_numbers([place for place, _ in located.pairs])
    return [Work(place, other, *shown[place]) for place, other in located.pairs], located.unpaired


def _selected(places: list[Place], mapping: MappingOptions) -> list[Place]:
    """Return the places of the ranks and steps that the user asks for."""
    ranks, steps = numbers("rank", mapping.rank), numbers("step", mapping.step)
    selected = [
        place for place in places if (not ranks or place.number in ranks) and (not steps or place.step in steps)
    ]
    if not selected:
        asked = ", ".join(f"{name} {text}" for name, text in (("rank", mapping.rank), ("step", mapping.step)) if text)
        raise NotComparableError(f"no dump is of {asked}")
    return selected


def _shown_numbers(places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    """Return the step and the rank number that each place is shown with."""
    shown: dict[Place, tuple[int, int]] = {}
    used: set[tuple[int, int]] = set()
    for place in sorted(places, key=lambda place: place.kind != "rank"):
        step = place.step or 0
        rank = place.number or 0 if place.kind == "rank" else 0
        while (step, rank) in used:
            rank += 1
        if place.kind != "rank" and rank:
            logger.info("%s is shown as rank %d.", place.document.parent, rank)
        used.add((step, rank))
        shown[place] = step, rank
    return shown
