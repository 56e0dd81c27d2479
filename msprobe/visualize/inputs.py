"""The dumps to draw: which of them become graphs or pairs of graphs, and the step and rank that they are shown with.

``find_sources`` finds them; ``Sources.load`` loads them one after the other, as they lie on disk or merged to one dump
per model replica.

The numbers are those of the folders. A folder without a number counts as 0. Where two folders of a step would have the
same number, each further one gets the next free number and the log says which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.compare.alignment.options import MappingOptions, numbers
from msprobe.compare.dump_pairs import locate
from msprobe.compare.parallel.layout import Layout, Replica, members_of
from msprobe.compare.parallel.merged_pair import load_pair
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.log import logger
from msprobe.core.store.reader import NO_CALLS, Dump, Place, ended_at_start, find_dumps, load_dump
from msprobe.visualize.graph.node import NameCache, Work

Loaded = tuple[Work, Dump, Dump | None]
_Steps = dict[int, list[Work]]


@dataclass(frozen=True, slots=True)
class Sources:
    """What two paths hold.

    Attributes:
        layouts: one per side where ranks are merged, else None.
        works: the graphs or pairs of graphs, where no ranks are merged.
        pairs: the ranks of each step of both sides, where ranks are merged.
    """

    layouts: tuple[Layout, ...] | None
    works: list[Work]
    pairs: list[tuple[list[Work], list[Work] | None]]

    @property
    def total(self) -> int:
        """Return how many graphs or pairs of graphs ``load`` yields."""
        if self.layouts is None:
            return len(self.works)
        first = self.layouts[0]
        return len(self.pairs) * (first.rank_size // (first.tp * first.pp))

    @property
    def size(self) -> int:
        """Return the size of the target's documents in bytes."""
        works = self.works + [work for targets, _ in self.pairs for work in targets]
        documents = [work.target.document for work in works]
        return sum(path.stat().st_size for path in documents if path.is_file())

    @property
    def places(self) -> list[Place]:
        """Return every dump of both sides."""
        works = self.works + [work for pair in self.pairs for side in pair for work in side or ()]
        sides = [place for work in works for place in (work.target, work.golden) if place is not None]
        return [member for place in sides for member in members_of(place)]

    def load(
        self, names: NameCache, first_golden: list[Dump] | None = None, *, published: bool = False
    ) -> Iterator[Loaded]:
        """Yield the dumps of each graph, loaded when they are asked for.

        ``first_golden`` may hold the golden dump of the first pair; it is taken out of the list.
        ``published`` merges ranks by the published rules.
        """
        if self.layouts is None:
            for work in self.works:
                yield _load_work(work, first_golden)
            return
        for targets, goldens in self.pairs:
            target_dumps = _merged_dumps(targets, self.layouts[0], names, published=published)
            if goldens is None:
                yield from ((_replica_work(targets, None, n), dump, None) for n, dump in enumerate(target_dumps))
                continue
            golden_dumps = _merged_dumps(goldens, self.layouts[-1], names, published=published)
            if len(target_dumps) != len(golden_dumps):
                raise NotComparableError(
                    f"the target merges to {len(target_dumps)} replicas, the golden run to {len(golden_dumps)}; "
                    "give the same data parallelism to both sides"
                )
            for number, (target, golden) in enumerate(zip(target_dumps, golden_dumps, strict=True)):
                yield _replica_work(targets, goldens, number), target, golden


def find_sources(
    target: Path, golden: Path | None, layouts: tuple[Layout, ...] | None, mapping: MappingOptions
) -> Sources:
    """Find the dumps below the paths; ``mapping`` says which ranks and steps, and how they pair.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: no dump or step of one side belongs to one of the other.
    """
    if layouts is None:
        works, unpaired = find_work(target, golden, mapping)
        for line in unpaired:
            logger.warning("%s: not drawn.", line)
        return Sources(None, works, [])
    targets = _by_step(find_work(target, None, mapping)[0])
    if golden is None:
        return Sources(layouts, [], [(works, None) for works in targets.values()])
    goldens = _by_step(find_work(golden, None, replace(mapping, run=mapping.runs[1]))[0])
    if len(targets) == len(goldens) == 1:
        return Sources(layouts, [], list(zip(targets.values(), goldens.values(), strict=True)))
    common = [step for step in targets if step in goldens]
    if not common:
        steps = f"target {_step_numbers(targets)}; golden run {_step_numbers(goldens)}"
        raise NotComparableError(f"no step is on both sides ({steps})")
    return Sources(layouts, [], [(targets[step], goldens[step]) for step in common])


def find_work(target: Path, golden: Path | None, mapping: MappingOptions) -> tuple[list[Work], list[str]]:
    """Return what to draw, in the order of steps and ranks, and a line for each dump without a partner.

    ``mapping`` says which ranks and steps of the target, and how both sides pair.

    Raises:
        ReadError: a path holds no dump.
        NotComparableError: no dump of one side belongs to one of the other.
    """
    if golden is None:
        places, empty = _recorded(_selected(find_dumps(target, mapping.runs[0]), mapping))
        shown = _shown_numbers(places)
        return [Work(place, None, *shown[place]) for place in places], empty
    located = locate(target, golden, mapping)
    shown = _shown_numbers([place for place, _ in located.pairs])
    return [Work(place, other, *shown[place]) for place, other in located.pairs], located.unpaired


def _recorded(places: list[Place]) -> tuple[list[Place], list[str]]:
    """Return the places of which something was recorded, and a line for each other one.

    Raises:
        NotComparableError: every process was killed before it recorded a call.
    """
    recorded = [place for place in places if not ended_at_start(place)]
    lines = [f"{place.document.parent}: the process {NO_CALLS}" for place in places if place not in recorded]
    if not recorded:
        raise NotComparableError(lines[0])
    return recorded, lines


def _selected(places: list[Place], mapping: MappingOptions) -> list[Place]:
    """Return the places of the ranks and steps that the user asks for."""
    ranks, steps = numbers("rank", mapping.rank), mapping.steps
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


def _load_work(work: Work, first_golden: list[Dump] | None) -> Loaded:
    if work.golden is None:
        return work, load_dump(work.target), None
    if isinstance(work.target, Replica) or isinstance(work.golden, Replica):
        target, golden, notes = load_pair(work.target, work.golden)
        for note in notes:
            logger.warning("%s: %s.", work.label, note)
        return work, target, golden
    return work, load_dump(work.target), first_golden.pop() if first_golden else load_dump(work.golden)


def _by_step(works: Sequence[Work]) -> _Steps:
    steps: _Steps = {}
    for work in works:
        steps.setdefault(work.step, []).append(work)
    return steps


def _step_numbers(steps: _Steps) -> str:
    return ", ".join(map(str, steps))


def _merged_dumps(works: Sequence[Work], layout: Layout, names: NameCache, *, published: bool) -> list[Dump]:
    from msprobe.visualize.merge.rank_groups import merge_ranks  # loads numpy

    if len(works) != layout.rank_size:
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"--rank_size {layout.rank_size}, but step {works[0].step} below "
            f"{works[0].target.document.parents[1]} has {len(works)} rank folders; "
            "give the number of ranks, and the folder of all of them",
        )
    dumps = {work.rank: load_dump(work.target) for work in works}
    return merge_ranks(dumps, layout, names, published=published)


def _replica_work(targets: Sequence[Work], goldens: Sequence[Work] | None, number: int) -> Work:
    golden = None if goldens is None else goldens[min(number, len(goldens) - 1)].target
    return Work(targets[min(number, len(targets) - 1)].target, golden, targets[0].step, number)
