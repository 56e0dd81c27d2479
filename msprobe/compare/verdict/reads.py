"""The numbers that the programs read (print, return, decide by): they leave a run whatever calls have made them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.verdict.twins import EQUAL, Raw, Twins
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor
from msprobe.trace.leaves import as_float, element_count

_READS = "reads"
_Floats = NDArray[np.float64]


class Read(NamedTuple):
    """A tensor that a program reads; its numbers, none where they are not recorded; how, and where."""

    raw: Raw
    numbers: _Floats
    call: str
    stack: tuple[str, ...]


class Reads:
    """What two programs read, and how far it is apart.

    Args:
        dumps: the dumps of target and golden run.
        coarsest: the unit round-off of the coarsest dtype that a value has passed.
    """

    def __init__(self, dumps: Sequence[Dump], coarsest: float) -> None:
        self._dumps, self._coarsest = dumps, coarsest

    def are_others(self, losses: Sequence[float] = (), results: Sequence[Sequence[float]] = ((), ())) -> bool:
        """Return whether both programs read as many numbers without a like, leaving out what they read of ``losses``,
        which are known to agree. They do not where one of them reads what is among the ``results`` of the other one,
        as the norm that it clips by, and the other one something else."""
        if math.isfinite(self.apart):
            return False
        left = self.others(losses)
        target, golden = map(_count, left)
        if not 0 < target == golden or any(not len(read.numbers) for own in left for read in own):
            return 0 < target == golden
        made = [[Read({}, np.array([*own]), "", ())] if own else [] for own in results]
        return _count(self._without_like(left[0], made[1])) == _count(self._without_like(left[1], made[0]))

    def others(self, losses: Sequence[float] = ()) -> tuple[list[Read], list[Read]]:
        """Return by side what is read and has no like among what the other program reads, nor among ``losses``, their
        sum and their mean; all where a program reads more numbers at once than are recorded."""
        target, golden = self._reads
        if any(not len(read.numbers) for read in (*target, *golden)) or not target or not golden:
            return self._reads
        total = math.fsum(losses)
        known = [Read({}, np.array([*losses, total, total / max(len(losses), 1)]), "", ())] if losses else []
        return self._without_like(target, [*golden, *known]), self._without_like(golden, [*target, *known])

    def _without_like(self, own: Sequence[Read], others: Sequence[Read]) -> list[Read]:
        if not others:
            return list(own)
        ends = np.cumsum([len(read.numbers) for read in own])
        apart = np.split(_nearest(own, others, self._twins), ends[:-1])
        return [read for read, one in zip(own, apart, strict=True) if not np.isfinite(one).all()]

    @cached_property
    def _twins(self) -> Twins:
        target, golden = ([read.raw for read in own] for own in self._reads)
        return Twins((target, golden), self._coarsest)

    @cached_property
    def apart(self) -> float:
        """How far what one program reads is from what the other one does: number by number wherever they read them, as
        whole tensors, or all together. Infinite where one reads nothing."""
        target, golden = self._reads
        if not target or not golden:
            return math.inf
        raws, twins = ([read.raw for read in target], [read.raw for read in golden]), self._twins
        alone = max(twins.apart(side, raw) for side, own in enumerate(raws) for raw in own)
        return min(alone, twins.joined_distance(*raws), self._numbers_apart(twins))

    def _numbers_apart(self, twins: Twins) -> float:
        """Return how far the numbers of both programs are apart, relative to the largest of each read: where one reads
        more of them than the other, it may have read one by one what the other one adds up first, or all that the other
        one reads and others: as many, or more where it is no chance. Infinite where they are others, or not known."""
        if any(not len(read.numbers) for own in self._reads for read in own):
            return math.inf
        target, golden = ([float(number) for read in own for number in read.numbers] for own in self._reads)
        if len(target) != len(golden) and all(map(math.isfinite, (*target, *golden))):
            apart = abs(math.fsum(target) - math.fsum(golden)) / max(math.hypot(*target), math.hypot(*golden), 1e-300)
            if apart <= EQUAL:
                return apart
        sides = [_nearest(own, others, twins) for own, others in (self._reads, self._reads[::-1])]
        alike = [one[np.isfinite(one)] for one in sides]
        lacking = [len(one) - len(like) for one, like in zip(sides, alike, strict=True)]
        few, many = (1, 0) if lacking[1] < lacking[0] else (0, 1)
        near = len(sides[many]) * twins.allowed(*(read.raw for read in self._reads[many]))
        if lacking[few] or (lacking[many] > len(alike[many]) and near ** len(sides[few]) > EQUAL):
            return math.inf
        return float(alike[few].max())

    @cached_property
    def _reads(self) -> tuple[list[Read], list[Read]]:
        target, golden = (list(_reads(dump)) for dump in self._dumps)
        return target, golden


def _count(reads: Sequence[Read]) -> float:
    """Return how many numbers are read."""
    return sum(element_count(read.raw) for read in reads)


def _reads(dump: Dump) -> Iterator[Read]:
    items = dump.header.get(_READS)
    for item in items if isinstance(items, list) else ():
        raw = item.get("value") if isinstance(item, dict) else None
        if isinstance(raw, dict) and is_tensor(raw) and element_count(raw) > 0:
            stack = item.get("stack")
            frames = (frame for frame in stack if isinstance(frame, str)) if isinstance(stack, list) else ()
            yield Read(raw, _numbers(item.get("numbers"), raw), str(item.get("call")), tuple(frames))


def _numbers(found: object, raw: Raw) -> _Floats:
    """Return the numbers of a record, none where they are damaged."""
    whole = isinstance(found, list) and len(found) == element_count(raw)
    return np.array([as_float(number) for number in found] if isinstance(found, list) and whole else [])


def _nearest(own: Sequence[Read], others: Sequence[Read], twins: Twins) -> _Floats:
    """Return how far the nearest number of the other program is from each that a program reads; infinite where that is
    farther than a twin may be. A minus that a program puts before what it has read leaves no record."""
    all_others = np.sort(np.abs(np.concatenate([read.numbers for read in others])))
    found = []
    for read in own:
        numbers = np.abs(read.numbers)
        places = np.searchsorted(all_others, numbers)
        near = (all_others[np.clip(places - step, 0, len(all_others) - 1)] for step in (0, 1))
        apart = np.minimum(*(np.abs(one - numbers) for one in near)) / max(numbers.max(), 1e-300)
        found.append(np.where(apart <= twins.allowed(read.raw), apart, math.inf))
    return np.concatenate(found)
