"""The rows of one part, with the verdicts that the whole run gave them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.compare.divided.channel import Arrays, Channel
from msprobe.compare.divided.own_part import OwnPart
from msprobe.compare.levels import row_levels
from msprobe.compare.mode import Policy
from msprobe.compare.rows import RowBlock, RowMaker, RowSource
from msprobe.compare.run import Comparison
from msprobe.numerics.verdict import Floats, Ints, Judged

_SMALL = ("level", "kind")
_JUDGED = ("times", "tolerance")
_MEASURED = ("element", "mean", "norm", "projection")


@dataclass(slots=True)
class _Measured:
    role: Ints
    element: Floats
    mean: Floats
    norm: Floats
    projection: Floats


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the rows ``first`` to ``last`` of a whole table need to be written. ``as_floats`` holds for all."""

    first: int
    as_floats: tuple[bool, ...]
    arrays: Arrays

    def send(self, channel: Channel) -> None:
        """Send the verdicts to the other process."""
        channel.send([self.first, self.as_floats], self.arrays)


def verdicts_of(comparison: Comparison, first: int, last: int, as_floats: tuple[bool, ...]) -> Verdicts:
    """Slice the verdicts of rows [first, last)."""
    rows = slice(first, last)
    small = {name: getattr(comparison.judged, name)[rows].astype(np.int8) for name in _SMALL}
    judged = {name: getattr(comparison.judged, name)[rows] for name in _JUDGED}
    return Verdicts(
        first, as_floats, small | judged | {name: getattr(comparison.measured, name)[rows] for name in _MEASURED}
    )


def received_verdicts(head: Sequence[Any], arrays: Arrays) -> Verdicts:
    """Return the verdicts that were sent."""
    return Verdicts(head[0], tuple(head[1]), arrays)


def part_blocks(own: OwnPart, verdicts: Verdicts, policy: Policy) -> Iterator[RowBlock]:
    """Yield the rows of a part; see ``Comparison.blocks``."""
    given = verdicts.arrays
    level, kind = (given[name].astype(np.int64) for name in _SMALL)
    judged = Judged(level, kind, 0.0, *(given[name] for name in _JUDGED))
    measured = _Measured(own.account.facts.role, *(given[name] for name in _MEASURED))
    levels = row_levels(own.table, judged, policy)
    source = RowSource(own.target, own.account.mode, own.table, levels, judged, measured, as_floats=verdicts.as_floats)
    return RowMaker(source).blocks(reference=policy is Policy.REFERENCE)
