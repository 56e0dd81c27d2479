"""The statistics and verdicts of ordinary rows as arrays that another process can be sent: a line per row."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from msprobe.compare.divided.channel import Arrays
from msprobe.compare.mode import Mode, Policy
from msprobe.compare.run import Comparison
from msprobe.core.tensors.statistics import STATISTICS
from msprobe.numerics.verdict import Bools, Floats, Ints, Judged, Measured

_JUDGED_ARRAYS = ("level", "kind", "times", "tolerance")


@dataclass(frozen=True, slots=True)
class StatisticPairs:
    """The pairs of tensors of a comparison whose statistics are all floats.

    Attributes:
        rows: numbers of the rows, ascending.
        values: shape (rows, 2, statistics): the statistics of the target, then those of the golden run.
        consistent: whether both sides say the same about ``requires_grad``.
        judged: the verdicts of these rows; ``level`` is -1 where other rules than the default policy decide.
        measured: the differences of these rows.
    """

    rows: Ints
    values: Floats
    consistent: Bools
    judged: Judged
    measured: Measured

    def arrays(self) -> Arrays:
        """Return all arrays by name, to be sent to another process."""
        judged = {f"judged.{name}": getattr(self.judged, name) for name in _JUDGED_ARRAYS}
        measured = {f"measured.{field.name}": getattr(self.measured, field.name) for field in fields(Measured)}
        return {"rows": self.rows, "values": self.values, "consistent": self.consistent, **judged, **measured}


def received_pairs(arrays: Arrays) -> StatisticPairs:
    """Return the pairs that another process sent as arrays."""
    judged = {name: arrays[f"judged.{name}"] for name in _JUDGED_ARRAYS}
    measured = Measured(**{field.name: arrays[f"measured.{field.name}"] for field in fields(Measured)})
    return StatisticPairs(arrays["rows"], arrays["values"], arrays["consistent"], Judged(noise=0.0, **judged), measured)


def statistic_pairs(comparison: Comparison) -> StatisticPairs:
    """Return the pairs of the ordinary rows of a comparison of statistics; none of any other comparison."""
    pairs = comparison.table.float_pairs
    rows = pairs.rows if comparison.mode is Mode.STATISTICS else pairs.rows[:0]
    values = pairs.values[: len(rows)].reshape(len(rows), 2, len(STATISTICS))
    same_flag = [left.get("requires_grad") == right.get("requires_grad") for left, right in pairs.samples]
    judged = comparison.judged.sliced(rows)
    if comparison.policy is Policy.REFERENCE:
        judged = replace(judged, level=np.full(len(rows), -1))
    consistent = np.array(same_flag, np.bool_)[pairs.frames[: len(rows)]]
    return StatisticPairs(rows, values, consistent, judged, comparison.measured.sliced(rows))
