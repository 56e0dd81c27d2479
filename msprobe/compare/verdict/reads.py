"""The numbers that the programs read (print, return, decide by): they leave a run whatever calls have made them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from msprobe.compare.verdict.twins import Raw, Twins
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import is_tensor
from msprobe.trace.leaves import element_count

_READS = "reads"


class Reads:
    """What two programs read, and how far it is apart.

    Args:
        dumps: the dumps of target and golden run.
        coarsest: the unit round-off of the coarsest dtype that a value has passed.
    """

    def __init__(self, dumps: Sequence[Dump], coarsest: float) -> None:
        self._dumps, self._coarsest = dumps, coarsest

    @property
    def are_others(self) -> bool:
        """Whether both programs read as many numbers, and not the same."""
        target, golden = (sum(map(element_count, raws)) for raws in self._values)
        return 0 < target == golden and not math.isfinite(self.apart)

    @cached_property
    def apart(self) -> float:
        """How far what one program reads is from what the other one does: one by one wherever it reads them, or all
        together, as one may read in a list what the other reads in numbers. Infinite where one reads nothing."""
        target, golden = self._values
        if not target or not golden:
            return math.inf
        twins = Twins((target, golden), self._coarsest)
        alone = max(twins.apart(side, raw) for side, raws in enumerate((target, golden)) for raw in raws)
        return min(alone, twins.joined_distance(target, golden))

    @cached_property
    def _values(self) -> tuple[list[Raw], list[Raw]]:
        target, golden = (list(_reads(dump)) for dump in self._dumps)
        return target, golden


def _reads(dump: Dump) -> Iterator[Raw]:
    items = dump.header.get(_READS)
    values = (item.get("value") for item in (items if isinstance(items, list) else ()) if isinstance(item, dict))
    return (raw for raw in values if isinstance(raw, dict) and is_tensor(raw))
