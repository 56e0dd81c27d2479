"""Which dumps become graphs or pairs of graphs, and the step and rank numbers they are shown with.

The numbers are those of the folders. A folder without a number counts as 0; where two folders of a step would share
one, each further one gets the next free number and the log says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.compare.locate import locate
from msprobe.core.log import logger
from msprobe.core.store.reader import Place, find_dumps


@dataclass(frozen=True, slots=True)
class Work:
    """One graph or pair of graphs to make. ``follows`` is what the same process carries from step to step."""

    target: Place
    golden: Place | None
    step: int
    rank: int

    @property
    def label(self) -> str:
        return f"step {self.step} rank {self.rank}"

    @property
    def follows(self) -> str:
        return self.target.label


def find_work(target: Path, golden: Path | None) -> tuple[list[Work], list[str]]:
    """What to do, in order of step and rank, and a line for each dump without a partner.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: no dump of one side belongs to one of the other.
    """
    if golden is None:
        places = find_dumps(target)
        numbers = _numbers(places)
        return [Work(place, None, *numbers[place]) for place in places], []
    located = locate(target, golden)
    numbers = _numbers([ours for ours, _ in located.pairs])
    return [Work(ours, theirs, *numbers[ours]) for ours, theirs in located.pairs], located.unpaired


def _numbers(places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
    numbers: dict[Place, tuple[int, int]] = {}
    used: set[tuple[int, int]] = set()
    for place in sorted(places, key=lambda place: place.kind != "rank"):
        step = place.step or 0
        rank = place.number or 0 if place.kind == "rank" else 0
        while (step, rank) in used:
            rank += 1
        if place.kind != "rank" and rank:
            logger.info("%s is shown as rank %d.", place.document.parent, rank)
        used.add((step, rank))
        numbers[place] = step, rank
    return numbers
