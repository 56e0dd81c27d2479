"""The whole job of ``msprobe compare``: locate, load, compare, judge, conclude and write, one dump pair at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.analyze.first_divergence import Divergence, first_divergence
from msprobe.compare.alignment.options import MappingKeywords, MappingOptions, mapping_options
from msprobe.compare.locate import Located, locate
from msprobe.compare.natural_scale import Vanished
from msprobe.compare.parallel_layout import load_pair
from msprobe.compare.rows import CompareRow, RowBlock
from msprobe.compare.run import Comparison, Policy, compare_dumps, counts, levels
from msprobe.compare.summary import CompareSummary
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.store.atomic import make_folder
from msprobe.core.store.layout import DEBUG
from msprobe.core.store.reader import Place, paused_gc
from msprobe.numerics.verdict import Level
from msprobe.report.csv import write_table
from msprobe.report.data_mapping import write_data_mapping
from msprobe.report.layer_map import told, write_layer_map

if TYPE_CHECKING:
    from typing_extensions import Unpack

PathLike = str | os.PathLike[str]


@dataclass(slots=True)
class CompareResult:
    """What ``msprobe.compare`` returns. ``summary`` is the answer; ``comparisons`` and ``rows`` give the details."""

    summary: CompareSummary
    policy: Policy
    mapping: MappingOptions
    pairs: list[tuple[Place, Place]] = field(default_factory=list)
    _last: Comparison | None = None

    @property
    def verdict(self) -> str:
        """``same``, ``diverged`` or ``not_comparable``."""
        return self.summary.verdict

    def comparisons(self) -> Iterator[Comparison]:
        """Each compared dump pair with its table, columns and rows; loaded when asked for, one at a time."""
        for target, golden in self.pairs:
            if self._last is not None and len(self.pairs) == 1:
                yield self._last
                return
            ours, theirs, _ = load_pair(target, golden)
            yield compare_dumps(ours, theirs, self.policy, mapping=self.mapping)

    def rows(self) -> Iterator[CompareRow]:
        """The rows of all result tables."""
        for comparison in self.comparisons():
            yield from comparison.rows()


@dataclass(slots=True)
class _Job:
    located: Located
    summary: CompareSummary
    policy: Policy
    output: Path | None
    by_file: bool
    stamp: str
    mapping: MappingOptions
    noise: dict[str, float] = field(default_factory=dict)
    vanished: dict[str, Vanished] = field(default_factory=dict)
    agreed: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    earliest: tuple[int, int] | None = None
    compared: int = 0
    checked: bool = False
    last: Comparison | None = None


def compare(
    target: PathLike,
    golden: PathLike,
    *,
    policy: str = "default",
    output: PathLike | None = None,
    suffix: str = "",
    **mapping: Unpack[MappingKeywords],
) -> CompareResult:
    """Compare two dumps: documents, process folders, step folders or dump roots.

    ``output`` is the folder for the result tables; without it nothing is written. ``suffix`` goes into their names.
    ``mapping`` says which entries, ranks and steps belong together, see ``MappingKeywords``. Runs that cannot be
    compared give the verdict ``not_comparable``.

    Raises:
        ReadError: a path holds no dump, or a document or mapping file is damaged.
        MsprobeException: the policy or a keyword is unknown, or the output folder cannot be written.
    """
    chosen, options = _policy(policy), mapping_options(mapping)
    summary = CompareSummary(verdict="same", target=str(target), golden=str(golden), policy=chosen.value)
    try:
        located = locate(Path(target), Path(golden), options)
    except NotComparableError as error:
        return CompareResult(_not_comparable(summary, error.error_info), chosen, options)
    folder = None if output is None else Path(output)
    stamp = datetime.now().strftime("%Y%m%d%H%M%S")
    job = _Job(located, summary, chosen, folder, Path(target).is_file(), f"{suffix}_{stamp}", options)
    summary.unpaired.extend(located.unpaired)
    for left, right in located.pairs:
        with paused_gc():
            _compare_pair(job, left, right)
    last = job.last if len(located.pairs) == 1 else None
    return CompareResult(_conclude(job), chosen, options, located.pairs, last)


def _policy(name: str) -> Policy:
    try:
        return Policy(name)
    except ValueError:
        known = ", ".join(policy.value for policy in Policy)
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR, f"policy {name!r}; known policies: {known}"
        ) from None


def _compare_pair(job: _Job, left: Place, right: Place) -> None:
    label = left.label
    target, golden, notes = load_pair(left, right)
    try:
        known = job.vanished.setdefault(label, {})
        noise = job.noise.get(label, 0.0)
        comparison = compare_dumps(target, golden, job.policy, mapping=job.mapping, noise=noise, vanished=known)
    except NotComparableError as error:
        job.reasons.append(error.error_info)
        return
    job.reasons += notes
    found = first_divergence(comparison, later_step=label in job.agreed)
    if found is None:
        job.noise[label] = comparison.judged.noise
        job.agreed.add(label)
    else:
        job.agreed.discard(label)
        _note(job, found, left)
    if comparison.table.layer_map is not None:
        job.reasons.append(told(comparison.table.layer_map))
    row_levels = levels(comparison) if job.output is None else _write(job, comparison, left)
    job.summary.counts.merge(counts(comparison, row_levels))
    for dump in (target, golden):
        if dump.recovered:
            job.reasons.append(
                f"{dump.place.document.parent} was read from its journal: the run is not finished or died"
            )
    job.compared += 1
    job.checked = job.checked or bool((comparison.judged.level == Level.PASS).any())
    job.last = comparison


def _note(job: _Job, found: Divergence, place: Place) -> None:
    """Keep the earliest divergence: by step, then by position among the ranks of the step."""
    position = (-1 if place.step is None else place.step, found.entry)
    if job.earliest is None or position < job.earliest:
        job.earliest = position
        job.summary.first_divergence = found.found


def _write(job: _Job, comparison: Comparison, place: Place) -> list[str]:
    """Write the table and return the level of each row."""
    assert job.output is not None
    found: list[str] = []

    def noted() -> Iterator[RowBlock]:
        for block in comparison.blocks():
            found.extend(block.levels)
            yield block

    try:
        make_folder(job.output)
        paths = write_table(job.output, _stem(job, place), comparison.columns, noted())
        if job.mapping.layer_mapping is not None:
            paths.append(write_data_mapping(job.output, _stem(job, place, "data_mapping"), comparison.table))
        if comparison.table.layer_map is not None:
            stem = _stem(job, place, "layer_mapping")
            paths.append(write_layer_map(job.output, stem, comparison, comparison.table.layer_map))
    except OSError as error:
        reason = f"the result cannot be written to {job.output} ({error.strerror}); choose another folder with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    job.summary.results.extend(str(path) for path in paths)
    return found


def _stem(job: _Job, place: Place, what: str = "compare_result") -> str:
    head = f"debug_{what}" if place.document.name == DEBUG else what
    label = f"_{place.label}" if place.label and not job.by_file else ""
    step = f"_step{place.step}" if job.located.several_steps else ""
    return f"{head}{label}{step}{job.stamp}"


def _conclude(job: _Job) -> CompareSummary:
    summary = job.summary
    if not job.compared:
        return _not_comparable(summary, job.reasons[0])
    summary.reason = "; ".join(dict.fromkeys(job.reasons))
    if summary.first_divergence is not None:
        summary.verdict = "diverged"
    elif not job.checked:
        return _not_comparable(summary, "no value could be checked on both sides; see Err_message in the result table")
    return summary


def _not_comparable(summary: CompareSummary, reason: str) -> CompareSummary:
    summary.verdict = "not_comparable"
    summary.reason = reason
    return summary
