"""What the texts of ordinary rows are made of, as arrays that another process can be sent: a line per row."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from msprobe.compare.divided.channel import Arrays
from msprobe.compare.mode import Mode, Policy
from msprobe.compare.plain import COUNT, FloatPairs
from msprobe.compare.run import Comparison
from msprobe.numerics.verdict import Bools, Floats, Ints

_NO_PAIRS = FloatPairs(np.empty(0, np.int64), np.empty((0, 2, COUNT)))


@dataclass(frozen=True, slots=True)
class StatisticPairs:
    """``rows`` as in ``FloatPairs``; ``values`` too, of shape (rows, 8). ``consistent``: both sides say the same about
    ``requires_grad``.

    The others are those of ``Judged`` and ``Measured``; ``level`` is -1 where the policy has not judged by them.
    """

    rows: Ints
    values: Floats
    consistent: Bools
    level: Ints
    kind: Ints
    role: Ints
    times: Floats
    tolerance: Floats
    element: Floats
    mean: Floats
    norm: Floats
    projection: Floats

    def arrays(self) -> Arrays:
        """By name, to be sent."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def statistic_pairs(comparison: Comparison) -> StatisticPairs:
    """Those of the ordinary rows of a comparison of statistics, none of any other."""
    judged, measured = comparison.judged, comparison.measured
    pairs = comparison.table.float_pairs if comparison.mode is Mode.STATISTICS else _NO_PAIRS
    rows = pairs.rows
    by_frame = [ours.get("requires_grad") == theirs.get("requires_grad") for ours, theirs in pairs.samples]
    return StatisticPairs(
        rows,
        pairs.values.reshape(len(rows), 2 * COUNT),
        np.array(by_frame, np.bool_)[pairs.frames],
        np.full(len(rows), -1) if comparison.policy is Policy.REFERENCE else judged.level[rows],
        judged.kind[rows],
        measured.role[rows],
        judged.times[rows],
        judged.tolerance[rows],
        measured.element[rows],
        measured.mean[rows],
        measured.norm[rows],
        measured.projection[rows],
    )
