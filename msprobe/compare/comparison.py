"""Compare two loaded dumps: pair their entries and leaves, measure the differences, judge them.

The result is a table with a verdict per row; the rows of the result table are made on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.alignment.protocol import Strategy
from msprobe.compare.differences.cancelled_gradients import CancelledGradients
from msprobe.compare.differences.coarsest import NumberFormats, raise_where_rounded
from msprobe.compare.differences.measure import measure
from msprobe.compare.differences.row_facts import row_facts
from msprobe.compare.differences.row_remarks import of_calls
from msprobe.compare.exemptions.on_demand import apply_all, speaking
from msprobe.compare.exemptions.protocol import ComparedDumps
from msprobe.compare.extensions import Extras
from msprobe.compare.inputs.mode import Mode, Policy, mode_of
from msprobe.compare.inputs.structure import raise_where_equal, with_calls
from msprobe.compare.records.entries import OPTIMIZER, EntryKey, entry_keys
from msprobe.compare.records.optimizer_steps import (
    OPTIMIZERS,
    OtherCount,
    OtherSetting,
    first_other_count,
    first_other_number,
)
from msprobe.compare.rows.cells import NO_FLOAT_COLUMNS, CellMaker, Tensors, column_types, float_columns
from msprobe.compare.rows.columns import columns
from msprobe.compare.rows.explanations import GOLDEN_STACKS, explained_columns
from msprobe.compare.rows.levels import RowLevels, row_levels
from msprobe.compare.rows.rows import CompareRow, RowBlock, RowMaker, RowSource
from msprobe.compare.rows.summary import Counts
from msprobe.compare.table.precisions import coarser_precision, stored_precision
from msprobe.compare.table.table import LeafTable, build_table
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.host import paused_gc
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump, Place
from msprobe.core.store.record_walk import with_changed_values
from msprobe.numerics.verdict import Ints, Judged, Measured, RowKind, judge

if TYPE_CHECKING:
    from msprobe.compare.differences.noise_profile import NoiseProfile
    from msprobe.compare.differences.parameter_updates import ParameterUpdates
    from msprobe.compare.regions.one_sided import OneSidedCalls
    from msprobe.compare.regions.without_consequence import ConsequenceRules
    from msprobe.compare.requests.token_axes import TokenAxes
    from msprobe.compare.verdict.step_end import StepEnd
    from msprobe.numerics.metrics.tensor import TensorDifference
    from msprobe.numerics.metrics.user_metrics import Metric
    from msprobe.numerics.noise_floor import NoiseFloor

_NO_MAPPING = MappingOptions()


@dataclass(slots=True)
class StepHistory:
    """What the comparison of one step tells the comparison of the next one.

    Attributes:
        noise: ``judged.noise`` of the last step without a divergence (dimensionless); 0 before the first one.
        cancelled_gradients: gradients that cancelled to zero so far; ``measure`` adds to it.
        updates: parameters, gradients and settings of optimizers so far; None before the first step.
        accepted_spread: the largest difference so far that may follow from accepted ones (dimensionless).
        last_step: whether no step follows, for which anything should be kept.
        shown: whether a step that followed has shown what an earlier one left.
        next_agrees: returns whether the next step computes the same forward; None where that is not known.
    """

    noise: float = 0.0
    cancelled_gradients: CancelledGradients = field(default_factory=CancelledGradients)
    updates: ParameterUpdates | None = None
    accepted_spread: float = 0.0
    last_step: bool = False
    shown: bool = False
    next_agrees: Callable[[], bool] | None = None

    def look_ahead(self, pair: tuple[Place, Place] | None, policy: Policy, mapping: MappingOptions | Strategy) -> None:
        """Let the step after the coming one show what that leaves, where nothing else does.

        Args:
            pair: the dumps of that step; None after the last one, when a step before has to have been shown so: it ran
                the same code.
            policy, mapping: as for ``compare_dumps``.
        """
        self.last_step = pair is None
        self.next_agrees = cache(partial(self._is_shown, pair, policy, mapping))

    def _is_shown(self, pair: tuple[Place, Place] | None, policy: Policy, mapping: MappingOptions | Strategy) -> bool:
        if pair is None:
            return self.shown
        from msprobe.compare.parallel.merged_pair import load_pair  # loaded where a step leaves what nothing shows
        from msprobe.compare.verdict.step_end import StepEnd

        try:
            target, golden, _ = load_pair(*pair)
            with paused_gc(), np.errstate(all="ignore"):
                following = _judged_pair((target, golden), policy, mapping, StepHistory(last_step=True), Extras())
        except (NotComparableError, ReadError):
            return False  # the pair itself says so
        end = StepEnd(following.table, following.dumps[:2], following.measured, following.judged)
        self.shown = self.shown or end.sinks.forward_agrees
        return end.sinks.forward_agrees

    def add(self, table: LeafTable, measured: Measured, judged: Judged, dumps: tuple[Dump, Dump]) -> None:
        """Keep what a step showed of parameters and their updates, where another step follows.

        Args:
            table: both dumps.
            measured: the differences of all rows.
            judged: the verdicts of all rows.
            dumps: target and golden run.
        """
        if self.last_step:
            return
        from msprobe.compare.differences.parameter_updates import updates_of  # for several steps only

        self.cancelled_gradients.add_updates(table, *dumps)
        agree = bool(table.updated) and all(judged.kind[row] <= RowKind.UNCHECKED for row in table.updated)
        self.updates = replace(updates_of(table, measured.role, *dumps, self.updates), agree=agree)


@dataclass(slots=True)
class Comparison:
    """The result for one pair of dumps. ``remarks`` are flags of ``Remark``, one number per row."""

    target: Dump
    golden: Dump
    mode: Mode
    policy: Policy
    table: LeafTable
    measured: Measured
    judged: Judged
    row_levels: RowLevels
    tensors: list[TensorDifference | None] | None
    remarks: Ints
    metrics: Sequence[Metric] = ()  # of whole tensors alone
    earlier: ParameterUpdates | None = None  # what the steps before showed
    accepts: bool = False  # whether the user accepts differences
    settings_accepted: bool = False  # whether settings of optimizers may differ that no recorded value shows
    end: StepEnd | None = None  # what leaves the step, where it was looked for

    def step_end(self) -> StepEnd:
        """Return what leaves the step."""
        if self.end is None:
            from msprobe.compare.verdict.step_end import StepEnd  # loaded where runs differ

            self.end = StepEnd(self.table, (self.target, self.golden), self.measured, self.judged)
        return self.end

    @property
    def unshown_setting(self) -> OtherSetting | OtherCount | None:
        """Return the first number among the settings of optimizers that differs in a step of which neither side records
        a call, or the first parameter that both update, and not as often; None where there is none, or it is accepted.

        Level L0 records no such call. What another learning rate, or a step more, does shows in the parameters of the
        next step, and where no further one is recorded, in the header alone. Settings are arguments of the step:
        another number is a divergence, as in a recorded call. Where calls of an optimizer are recorded, values decide.
        """
        if self.settings_accepted or self.policy is Policy.REFERENCE:
            return None
        if self.target.header.get(OPTIMIZERS) == self.golden.header.get(OPTIMIZERS):
            return None
        other = first_other_number(self.target, self.golden) or first_other_count(self.target, self.golden)
        return None if other and self.shows_updates else other

    @property
    def ends_apart(self) -> bool:
        """Whether losses, or what the programs read, are others, while each program makes calls of its own: a
        divergence, also where no pair of calls shows it. None is where the user accepts differences."""
        if not self.table.alone or self.accepts:
            return False
        if self.policy is Policy.REFERENCE or self.mode is Mode.CHECKSUM:
            return False
        return self.step_end().sinks.are_others

    @property
    def shows_updates(self) -> bool:
        """Return whether a call of an optimizer is recorded, on any side."""
        return any(key.parent == OPTIMIZER for key in self.table.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the titles of the result table."""
        return (*titles(self.target, self.mode, self.policy), *(metric.title for metric in self.metrics))

    def blocks(self, entries: range | None = None) -> Iterator[RowBlock]:
        """Yield the rows in execution order, many at a time; ``entries`` limits them to some entries.

        Entries of the golden run alone stand where they were executed.
        """
        source = RowSource(
            self.target,
            self.golden,
            self.mode,
            self.table,
            self.row_levels,
            self.judged,
            self.measured,
            CellMaker(self.mode, self.table, self.tensors, self._as_floats()),
            self.tensors,
            metrics=len(self.metrics),
        )
        return RowMaker(source).blocks(entries, reference=self.policy is Policy.REFERENCE)

    def _as_floats(self) -> tuple[bool, ...]:
        """Return which statistics columns show integers as floats."""
        if self.policy is Policy.DEFAULT or self.mode is Mode.CHECKSUM:
            return NO_FLOAT_COLUMNS
        return float_columns([column_types(self.table)])

    def rows(self) -> Iterator[CompareRow]:
        """Yield the rows one by one."""
        for block in self.blocks():
            yield from block.rows()


def titles(target: Dump, mode: Mode, policy: Policy) -> tuple[str, ...]:
    """Return the titles of the result table without the metrics of users."""
    if policy is Policy.REFERENCE:
        return columns(mode, target.has_stacks)
    golden_stacks = (GOLDEN_STACKS,) if target.has_stacks else ()
    return (*columns(mode, target.has_stacks), *explained_columns(mode), *golden_stacks)


def compare_dumps(
    target: Dump,
    golden: Dump,
    policy: Policy = Policy.DEFAULT,
    *,
    mapping: MappingOptions | Strategy = _NO_MAPPING,
    history: StepHistory | None = None,
    extras: Extras | None = None,
) -> Comparison:
    """Compare two dumps.

    Args:
        target: the dump to judge.
        golden: the dump to judge it by.
        policy: the rules by which rows get a level.
        mapping: which entries belong together, or a strategy that pairs them.
        history: what the steps before showed; it is changed.
        extras: what the user adds.

    Raises:
        NotComparableError: see ``mode_of``, ``strategy_of`` and ``Unrecorded``.
        ReadError: a record or a mapping file cannot be understood.
    """
    extras, history = extras or Extras(), history or StepHistory(last_step=True)
    with paused_gc(), np.errstate(all="ignore"):  # what overflows or is no number stays visible in the verdict
        pair = _judged_pair((target, golden), policy, mapping, history, extras)
        dumps, table, measured, judged, end = pair.dumps, pair.table, pair.measured, pair.judged, None
        rules = pair.one_sided or _consequence_rules(table, dumps, judged, pair.contradictions)
        if rules is not None:
            table, end = rules.judged(measured, judged)
    earlier = history.updates
    history.add(table, measured, judged, (dumps.target, dumps.golden))
    levels = row_levels(table, judged, policy)
    own = pair.tensors, pair.remarks, pair.metrics, earlier, bool(extras.accepted)
    return Comparison(dumps.target, dumps.golden, dumps.mode, policy, table, measured, judged, levels, *own, end=end)


class _JudgedPair(NamedTuple):
    """Two dumps with the verdicts of all rows, before anything excuses a difference.

    Attributes:
        contradictions: the rows of tensors whose files differ while their records are equal.
    """

    dumps: ComparedDumps
    table: LeafTable
    tensors: Tensors
    metrics: tuple[Metric, ...]
    remarks: Ints
    measured: Measured
    judged: Judged
    contradictions: tuple[int, ...]
    one_sided: OneSidedCalls | None


def _judged_pair(
    pair: tuple[Dump, Dump], policy: Policy, mapping: MappingOptions | Strategy, history: StepHistory, extras: Extras
) -> _JudgedPair:
    options = mapping if isinstance(mapping, MappingOptions) else _NO_MAPPING
    dumps = _compared_dumps(*pair, policy, options)._replace(next_agrees=history.next_agrees)
    table = _paired_table(dumps, mapping)
    tensors, metrics = _whole_tensors(dumps, table, extras)
    ignores = options.ignore_dtype or (policy is Policy.DEFAULT and coarser_precision(table) > 0.0)
    formats = NumberFormats.of(options.precision, ignore_dtype=ignores).coarser(
        stored_precision(dumps.target, dumps.golden) if policy is Policy.DEFAULT else 0.0
    )
    facts = row_facts(table, checksums=dumps.mode is Mode.CHECKSUM, formats=formats)
    if dumps.target.merged:
        from msprobe.compare.parallel.merged_dump import rounded_calls  # loaded where ranks are merged

        raise_where_rounded(facts.coarsest, table, rounded_calls(dumps.target))
    of_calls(table, dumps.target.data, dumps.golden.data, facts.remarks)
    cancelled = history.cancelled_gradients
    measured = measure(table, facts, speaking, tensors=tensors, cancelled_gradients=cancelled, formats=formats)
    if history.updates is not None and dumps.mode is not Mode.CHECKSUM:
        from msprobe.compare.differences.parameter_updates import mark_lost_updates  # for several steps only

        mark_lost_updates(table, measured, history.updates)
    contradictions = tuple(row for row, one in enumerate(tensors or ()) if one is not None and one.contradicts)
    one_sided = one_sided_calls(table, dumps, contradictions) if table.alone else None
    if one_sided is not None:
        one_sided.set_aside(measured)
    floor = None if extras.noise is None else _learned(extras.noise, table, dumps, measured, history)
    judged = judged_as(dumps.mode, measured, history, floor)
    remarks = facts.remarks
    return _JudgedPair(dumps, table, tensors, metrics, remarks, measured, judged, contradictions, one_sided)


def _consequence_rules(
    table: LeafTable, dumps: ComparedDumps, judged: Judged, contradictions: tuple[int, ...]
) -> ConsequenceRules | None:
    """Return the rules about what differs without consequence; None where nothing differs."""
    if not has_differences(judged):
        return None
    from msprobe.compare.regions.without_consequence import ConsequenceRules  # loaded where runs differ

    return ConsequenceRules(table, dumps, contradictions=contradictions)


def _learned(
    noise: NoiseProfile, table: LeafTable, dumps: ComparedDumps, measured: Measured, history: StepHistory
) -> NoiseFloor:
    """Return what reruns showed to be normal; of merged ranks, whose layout rounds otherwise, where that is more than
    rounding, unless rounding was measured."""
    floor = noise.floor(table, dumps.mode, measured, dumps.golden)
    if dumps.target.merged and not noise.perturbed:
        return floor.beyond(judged_as(dumps.mode, measured, history).tolerance)
    return floor


def forward_alone(dump: Dump) -> Dump:
    """Return what a model in training and the same model in an inference engine have in common: the forward calls that
    no checkpoint repeats, and shapes without axes of length 1, as an engine may flatten a batch of one to tokens.

    Raises:
        ReadError: a record is nested too deep to be one.
    """
    first = (key.name for key in entry_keys(dump.data, dump.construct) if _is_first(key))
    return replace(dump, data={name: with_changed_values(dump.data[name], _squeezed) for name in first})


def _is_first(key: EntryKey) -> bool:
    return key.phase == Phase.FORWARD.value and not key.recompute


def _squeezed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a tensor with its axes of length 1 left out of the shape; another argument stays as it is."""
    shape = value.get("shape")
    return {**value, "shape": [size for size in shape if size != 1]} if isinstance(shape, list) else value


def _compared_dumps(target: Dump, golden: Dump, policy: Policy, options: MappingOptions) -> ComparedDumps:
    """Return what of two dumps is compared, as the options say."""
    if options.consistent_check:
        target, golden = forward_alone(target), forward_alone(golden)
    target, golden = with_calls(target), with_calls(golden)
    slices, request = (options.target_slice, options.golden_slice), _request_axes(options, target, golden)
    if request is not None:
        from msprobe.compare.requests.request_loops import without_other_requests  # only where a request is compared

        target, golden = without_other_requests(target, request.target), without_other_requests(golden, request.golden)
    return ComparedDumps(target, golden, mode_of(target, golden), policy, slices, request)


def _request_axes(options: MappingOptions, target: Dump, golden: Dump) -> TokenAxes | None:
    """Return what finds the rows of the request that the options name; None where they name none."""
    if not options.of_request:
        return None
    from msprobe.compare.inputs.request_rows import rows_of_pair  # only where a request is compared
    from msprobe.compare.requests.token_axes import TokenAxes
    from msprobe.compare.requests.token_pairs import requests_of

    requests = requests_of(options.target_request, options.golden_request)
    return TokenAxes(*rows_of_pair((target.header, golden.header), requests))


def _paired_table(dumps: ComparedDumps, mapping: MappingOptions | Strategy) -> LeafTable:
    """Return the pairs of leaves, without the differences that are exempt."""
    if isinstance(mapping, MappingOptions):
        from msprobe.compare.select_strategy import strategy_of  # a pair that is divided needs none

        published = dumps.policy is Policy.REFERENCE
        strategy = strategy_of(dumps.target, dumps.golden, mapping, published=published)
        # Ranks are merged where they are spread: each layout has calls of its own, like another program.
        different_programs = mapping.spread or dumps.target.merged
    else:
        # A strategy that the caller hands in decides alone which leaves are pairs.
        strategy, different_programs, published = mapping, False, False
    table = build_table(
        dumps.target,
        dumps.golden,
        strategy,
        dtype_gate=published,
        loose=different_programs,
        checksums=dumps.mode is Mode.CHECKSUM,
    )
    table = apply_all(table, dumps)
    raise_where_equal(table.alone, dumps.target)
    return table


def _whole_tensors(dumps: ComparedDumps, table: LeafTable, extras: Extras) -> tuple[Tensors, tuple[Metric, ...]]:
    """Return the differences of whole tensors, where they were recorded, and the metrics of the user.

    Raises:
        NotComparableError: a calibration is given, and no whole tensors were recorded.
    """
    if dumps.mode is not Mode.TENSOR:
        if extras.calibration is not None:
            raise NotComparableError("--config multiplies whole tensors, and these dumps are not of the task tensor")
        return None, ()
    from msprobe.compare.differences.whole_tensors import tensor_differences  # loads zip files and threads

    metrics = tuple(extras.metrics())
    folders = dumps.target.tensor_folder, dumps.golden.tensor_folder
    return tensor_differences(table, *folders, metrics, extras.calibration), metrics


def one_sided_calls(table: LeafTable, dumps: ComparedDumps, contradictions: tuple[int, ...] = ()) -> OneSidedCalls:
    """Return the calls of one side, and the rules about what differs without consequence.

    ``contradictions`` are the rows of tensors whose files differ while their records are equal.
    """
    from msprobe.compare.regions.one_sided import OneSidedCalls  # loaded where runs differ

    return OneSidedCalls(table, dumps, contradictions)


def has_differences(judged: Judged) -> bool:
    """Return whether a row differs: regions decide about these alone."""
    return bool((judged.kind > RowKind.UNCHECKED).any())


def judged_as(mode: Mode, measured: Measured, history: StepHistory, floor: NoiseFloor | None = None) -> Judged:
    """Return the verdicts of all rows; different checksums are infinitely apart.

    ``floor`` has learned spreads of reruns.
    """
    if mode is Mode.CHECKSUM:
        measured.element[measured.kind == RowKind.VALUE] = float("inf")
    return judge(measured, history.noise, floor)


def counts(comparison: Comparison, level_names: Iterable[str]) -> Counts:
    """Return the numbers of rows by level; rows without a partner count by side.

    ``level_names`` are the levels of ``comparison.rows()``, or of ``level_names_of`` where no rows are made.
    """
    table = comparison.table
    one_sided: Counter[str] = Counter()
    one_sided_levels: Counter[str] = Counter()
    by_row = list(level_names)
    for row in table.lone.nonzero()[0].tolist():
        one_sided_levels[by_row[row]] += 1
        one_sided["golden" if table.lone[row] < 0 else "target"] += 1
    all_levels = Counter(by_row)
    passed, warning, error = (all_levels[level] - one_sided_levels[level] for level in ("pass", "warning", "error"))
    return Counts(passed + warning + error, passed, warning, error, one_sided["target"], one_sided["golden"])


def level_names_of(comparison: Comparison) -> list[str]:
    """Return the level of every row under the policy of the comparison."""
    if comparison.policy is Policy.REFERENCE:
        return [level for block in comparison.blocks() for level in block.level_names()]
    return comparison.row_levels.names()
