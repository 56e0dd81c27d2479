"""Compare two loaded dumps: match, measure, judge. The result is a table with verdicts; rows are made on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from msprobe.compare.alignment.choice import strategy_of
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.columns import columns
from msprobe.compare.measure import measure
from msprobe.compare.mode import Mode, mode_of
from msprobe.compare.natural_scale import Vanished
from msprobe.compare.rows import CompareRow, RowBlock, RowMaker
from msprobe.compare.summary import Counts
from msprobe.compare.table import LeafTable, build_table
from msprobe.core.store.reader import Dump, paused_gc
from msprobe.numerics.metrics.tensor import TensorDifference
from msprobe.numerics.verdict import Judged, Kind, Level, Measured, judge

_NOTHING_SAID = MappingOptions()


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

    def blocks(self) -> Iterator[RowBlock]:
        """The rows in execution order, many at a time; golden-only entries stand where they were executed."""
        maker = RowMaker(self.target, self.mode, self.table, self.judged, self.measured, self.tensors)
        return maker.blocks(reference=self.policy is Policy.REFERENCE)

    def rows(self) -> Iterator[CompareRow]:
        """The rows one by one."""
        for block in self.blocks():
            yield from block.rows()


def compare_dumps(
    target: Dump,
    golden: Dump,
    policy: Policy = Policy.DEFAULT,
    *,
    mapping: MappingOptions = _NOTHING_SAID,
    noise: float = 0.0,
    vanished: Vanished | None = None,
) -> Comparison:
    """Compare two dumps. ``mapping`` says which entries belong together. ``noise`` is ``judged.noise`` of the step
    before, 0 for the first; ``vanished`` is one dict for all steps (see ``natural_scale``).

    Raises:
        NotComparableError: see ``mode_of`` and ``strategy_of``.
        ReadError: a record or a mapping file cannot be understood.
    """
    mode = mode_of(target, golden)
    reference = policy is Policy.REFERENCE
    with paused_gc():
        strategy = strategy_of(target, golden, mapping, published=reference)
        table = build_table(target, golden, strategy, dtype_gate=reference, loose=mapping.spread)
        tensors = None
        if mode is Mode.TENSOR:
            from msprobe.compare.tensors import tensor_differences  # zip files and threads: only where they are read

            tensors = tensor_differences(table, target.tensor_folder, golden.tensor_folder)
        measured = measure(table, checksums=mode is Mode.CHECKSUM, tensors=tensors, vanished=vanished)
        if mode is Mode.CHECKSUM:
            _no_tolerance(measured)
        judged = judge(measured, noise)
    return Comparison(target, golden, mode, policy, table, measured, judged, tensors)


def _no_tolerance(measured: Measured) -> None:
    measured.element[measured.kind == Kind.VALUE] = float("inf")


def counts(comparison: Comparison, row_levels: Iterable[str]) -> Counts:
    """Rows by verdict; rows without a partner count by side, benign ones (recomputation) not at all.

    ``row_levels`` are the levels of ``comparison.rows()``, or of ``levels`` where no rows are made.
    """
    table = comparison.table
    lone: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    by_level = list(row_levels)
    for row, (ours, theirs) in enumerate(zip(table.target, table.golden, strict=True)):
        if ours is None or theirs is None:
            skipped[by_level[row]] += 1
            lone["golden" if ours is None else "target"] += 1
    for number, pair in enumerate(table.entries):
        if pair.benign and table.key(number).recompute:
            lone["golden" if pair.target is None else "target"] -= int(table.starts[number + 1] - table.starts[number])
    found = Counter(by_level)
    passed, warning, error = (found[level] - skipped[level] for level in ("pass", "warning", "error"))
    return Counts(passed + warning + error, passed, warning, error, lone["target"], lone["golden"])


def levels(comparison: Comparison) -> list[str]:
    """The level of every row under the policy of the comparison."""
    if comparison.policy is Policy.REFERENCE:
        return [level for block in comparison.blocks() for level in block.levels]
    names = [level.name.lower() for level in Level]
    return [names[level] for level in comparison.judged.level.tolist()]
