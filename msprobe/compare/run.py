"""Compare two loaded dumps: match, measure, judge. The result is a table with verdicts; rows are made on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from msprobe.compare.columns import columns
from msprobe.compare.match import STRATEGIES
from msprobe.compare.measure import measure
from msprobe.compare.mode import Mode, mode_of
from msprobe.compare.natural_scale import Vanished
from msprobe.compare.rows import CompareRow, RowMaker
from msprobe.compare.summary import Counts
from msprobe.compare.table import LeafTable, build_table
from msprobe.compare.tensors import tensor_differences
from msprobe.core.store.reader import Dump, paused_gc
from msprobe.numerics.metrics.tensor import TensorDifference
from msprobe.numerics.verdict import Judged, Kind, Level, Measured, judge


class Policy(str, Enum):
    """Whose rules decide about Result and Err_message: ours, or the published thresholds."""

    DEFAULT = "default"
    REFERENCE = "reference"

    __str__ = str.__str__


@dataclass(slots=True)
class Comparison:
    """One compared pair of dumps."""

    target: Dump
    golden: Dump
    mode: Mode
    policy: Policy
    table: LeafTable
    measured: Measured
    judged: Judged
    tensors: list[TensorDifference | None] | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Titles of the result table."""
        return columns(self.mode, self.target.has_stacks)

    def rows(self) -> Iterator[CompareRow]:
        """The rows in execution order; golden-only entries stand where they were executed."""
        return RowMaker(self.target, self.mode, self.table, self.judged, self.measured, self.tensors).rows(
            reference=self.policy is Policy.REFERENCE
        )


def compare_dumps(
    target: Dump,
    golden: Dump,
    policy: Policy = Policy.DEFAULT,
    *,
    noise: float = 0.0,
    vanished: Vanished | None = None,
) -> Comparison:
    """Compare two dumps. ``noise`` is ``judged.noise`` of the step before, 0 for the first;
    ``vanished`` is one dict for all steps (see ``natural_scale``).

    Raises:
        NotComparableError: see ``mode_of``.
        ReadError: a record cannot be understood.
    """
    mode = mode_of(target, golden)
    reference = policy is Policy.REFERENCE
    with paused_gc():
        match = STRATEGIES["exact" if reference else "sequence"]
        table = build_table(target, golden, match, dtype_gate=reference)
        tensors = None
        if mode is Mode.TENSOR:
            tensors = tensor_differences(table, target.tensor_folder, golden.tensor_folder)
        measured = measure(table, checksums=mode is Mode.CHECKSUM, tensors=tensors, vanished=vanished)
        if mode is Mode.CHECKSUM:
            _no_tolerance(measured)
        judged = judge(measured, noise)
    return Comparison(target, golden, mode, policy, table, measured, judged, tensors)


def _no_tolerance(measured: Measured) -> None:
    measured.element[measured.kind == Kind.VALUE] = float("inf")


def counts(comparison: Comparison, row_levels: Sequence[str]) -> Counts:
    """Rows by verdict; rows without a partner count by side, benign ones (recomputation) not at all.

    ``row_levels`` are the levels of ``comparison.rows()``, or of ``levels`` where no rows are made.
    """
    table, found = comparison.table, Counts()
    benign = np.repeat([pair.benign for pair in table.entries], np.diff(table.starts)).tolist()
    for ours, theirs, level, skip in zip(table.target, table.golden, row_levels, benign, strict=True):
        if skip:
            continue
        if ours is None:
            found.golden_only += 1
        elif theirs is None:
            found.target_only += 1
        else:
            found.add(level)
    return found


def levels(comparison: Comparison) -> list[str]:
    """The level of every row under the policy of the comparison."""
    if comparison.policy is Policy.REFERENCE:
        return [row.level for row in comparison.rows()]
    names = [level.name.lower() for level in Level]
    return [names[level] for level in comparison.judged.level.tolist()]
