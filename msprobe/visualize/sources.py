"""The dumps to draw, loaded one after the other: as they lie on disk, or merged to one per model replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.parallel_layout import Layout
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.log import logger
from msprobe.core.store.reader import Dump, Place, load_dump
from msprobe.visualize.dumps import find_work
from msprobe.visualize.names import Names
from msprobe.visualize.node import Work

Loaded = tuple[Work, Dump, Dump | None]
_Steps = dict[int, list[Work]]


@dataclass(frozen=True, slots=True)
class Sources:
    """What two paths hold. ``total`` is how many graphs or pairs come out of ``loaded``."""

    target: Path
    golden: Path | None
    layouts: tuple[Layout, ...] | None
    works: list[Work]
    pairs: list[tuple[list[Work], list[Work] | None]]

    @property
    def total(self) -> int:
        if self.layouts is None:
            return len(self.works)
        first = self.layouts[0]
        return len(self.pairs) * (first.rank_size // (first.tp * first.pp))

    @property
    def size(self) -> int:
        """Bytes of the target's documents."""
        works = self.works + [work for ours, _ in self.pairs for work in ours]
        documents = [work.target.document for work in works]
        return sum(path.stat().st_size for path in documents if path.is_file())

    def loaded(self, names: Names, goldens: list[Dump] | None = None) -> Iterator[Loaded]:
        """Each graph's dumps, loaded when asked for; the first golden one is taken out of ``goldens`` where it is."""
        if self.layouts is None:
            for work in self.works:
                yield work, load_dump(work.target), _golden(work.golden, goldens)
            return
        for ours, theirs in self.pairs:
            targets = _merged(ours, self.layouts[0], names)
            if theirs is None:
                yield from ((_work(ours, None, number), dump, None) for number, dump in enumerate(targets))
                continue
            goldens = _merged(theirs, self.layouts[-1], names)
            if len(targets) != len(goldens):
                raise NotComparableError(
                    f"the target merges to {len(targets)} replicas, the golden run to {len(goldens)}; "
                    "give the same data parallelism to both sides"
                )
            for number, (target, golden) in enumerate(zip(targets, goldens, strict=True)):
                yield _work(ours, theirs, number), target, golden


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
        return Sources(target, golden, None, works, [])
    ours = _by_step(find_work(target, None, mapping)[0])
    if golden is None:
        return Sources(target, None, layouts, [], [(works, None) for works in ours.values()])
    theirs = _by_step(find_work(golden, None, mapping)[0])
    if len(ours) == len(theirs) == 1:
        return Sources(target, golden, layouts, [], list(zip(ours.values(), theirs.values(), strict=True)))
    common = [step for step in ours if step in theirs]
    if not common:
        raise NotComparableError(f"no step is on both sides (target {_told(ours)}; golden run {_told(theirs)})")
    return Sources(target, golden, layouts, [], [(ours[step], theirs[step]) for step in common])


def _golden(place: Place | None, loaded: list[Dump] | None) -> Dump | None:
    if place is None:
        return None
    return loaded.pop() if loaded else load_dump(place)


def _by_step(works: Sequence[Work]) -> _Steps:
    steps: _Steps = {}
    for work in works:
        steps.setdefault(work.step, []).append(work)
    return steps


def _told(steps: _Steps) -> str:
    return ", ".join(map(str, steps))


def _merged(works: Sequence[Work], layout: Layout, names: Names) -> list[Dump]:
    from msprobe.visualize.merge.ranks import merge_ranks  # a fiftieth of a second, only where ranks are merged

    if len(works) != layout.rank_size:
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR,
            f"--rank_size {layout.rank_size}, but step {works[0].step} below "
            f"{works[0].target.document.parents[1]} has {len(works)} rank folders; "
            "give the number of ranks, and the folder of all of them",
        )
    return merge_ranks({work.rank: load_dump(work.target) for work in works}, layout, names)


def _work(ours: Sequence[Work], theirs: Sequence[Work] | None, number: int) -> Work:
    golden = None if theirs is None else theirs[min(number, len(theirs) - 1)].target
    return Work(ours[min(number, len(ours) - 1)].target, golden, ours[0].step, number)
