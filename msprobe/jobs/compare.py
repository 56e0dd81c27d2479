"""The whole job of ``msprobe compare``: find the pairs of dumps, compare each rank, conclude, write the reports.

``compare`` is what users call, ``CompareResult`` what they get. One task is the pairs of one rank; an executor works on
the tasks (``compare_rank``), in this process or in others, and returns an outcome per pair.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps
from msprobe.compare.dump_pairs import Located, following, is_one_process, locate
from msprobe.compare.extensions import Extras, load_extras
from msprobe.compare.inputs.locations import PathLike, opened
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.layout_from_records import with_recorded_layouts
from msprobe.compare.parallel.merged_pair import load_pair
from msprobe.compare.records.note import Note, merged_notes
from msprobe.compare.rows.rows import CompareRow
from msprobe.compare.rows.summary import CompareSummary, verdict_text
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.core.host import cpu_count, is_url
from msprobe.core.html_card import html_card
from msprobe.core.store.layout import JOURNAL
from msprobe.core.store.reader import Place
from msprobe.core.store.runs import processes_of
from msprobe.core.store.safe_files import make_folder
from msprobe.jobs.compare_options import CompareOptions, check_options
from msprobe.jobs.compare_rank import compare_rank
from msprobe.jobs.executors.select import find_executor
from msprobe.jobs.row_observer import log_items
from msprobe.report.rank_outcome import PairOptions, PairOutcome, RankTask, outcomes_of, task_text

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    import pandas as pd
    from typing_extensions import Unpack

_MOST_PAGES = 32
_MOST_PROCESSES = 8
_WORK = "msprobe.jobs.compare_rank:compare_rank_text"


@dataclass(slots=True)
class CompareResult:
    """What ``msprobe.compare`` returns.

    ``summary`` is the answer and ``outcomes`` has an answer per pair; ``comparisons``, ``rows`` and ``to_dataframe``
    give the details.

    Attributes:
        policy: whose rules judged the rows.
        mapping: what the user said about which entries, ranks and steps belong together.
        pairs: the folders of target and golden run, per pair.
        extras: what the user added to the comparison: metrics, a noise profile, matrices.
        write_page: compares again and writes the HTML page to a path.
    """

    summary: CompareSummary
    policy: Policy
    mapping: MappingOptions
    pairs: list[tuple[Place, Place]] = field(default_factory=list)
    outcomes: list[PairOutcome] = field(default_factory=list)
    extras: Extras | None = None
    _last: Comparison | None = None
    write_page: Callable[[Path], object] | None = None

    @property
    def verdict(self) -> str:
        """Return ``same``, ``incomplete``, ``diverged`` or ``not_comparable``."""
        return self.summary.verdict

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the verdict, and what the command line prints."""
        from msprobe.report.summary_text import summary_text  # scripts print nothing

        mood = {"same": "good", "diverged": "bad"}.get(self.verdict, "unsure")
        rows = [("target", self.summary.target), ("golden", self.summary.golden)]
        return html_card(f"msprobe compare: {self.verdict.upper()}", mood, rows, summary_text(self.summary))

    def view(self, path: PathLike | None = None) -> Path:
        """Write the HTML page of the comparison, show it, and return its path.

        A notebook shows it below the cell, other programs in the browser.

        Args:
            path: where the page is written; None for a private temporary folder.

        Raises:
            MsprobeException: the page cannot be written.
        """
        from msprobe.report.html.page import show_page  # loads the library of pages

        page = Path(tempfile.mkdtemp(prefix="msprobe-")) / "compare.html" if path is None else Path(path).absolute()
        if self.write_page is not None:
            self.write_page(page)
        show_page(page)
        return page

    def comparisons(self) -> Iterator[Comparison]:
        """Yield each compared pair of dumps with its table, columns and rows; pairs are loaded one at a time."""
        history: dict[str, StepHistory] = {}
        after = following(self.pairs)
        for outcome in self.outcomes:
            if outcome.problem:
                continue
            if self._last is not None and len(self.pairs) == 1:
                yield self._last
                return
            target, golden, _ = load_pair(*self.pairs[outcome.order])
            own = history.setdefault(outcome.label, StepHistory())
            own.look_ahead(after[outcome.order], self.policy, self.mapping)
            comparison = compare_dumps(
                target, golden, self.policy, mapping=self.mapping, history=own, extras=self.extras
            )
            if self.extras is not None and self.extras.accepted:
                from msprobe.analyze.accepted_differences import accept_differences

                comparison = accept_differences(comparison, self.extras.accepted, own).comparison
            if outcome.first_divergence is None:
                own.noise = comparison.judged.noise
            yield comparison

    def rows(self) -> Iterator[CompareRow]:
        """Yield the rows of all result tables."""
        for comparison in self.comparisons():
            yield from comparison.rows()

    def to_dataframe(self) -> pd.DataFrame:
        """Return all rows as a pandas table: ``step`` and ``rank``, then the columns of the result table.

        Numbers are numbers, a percentage is a fraction (``12%`` is 0.12), a cell without a value is NaN where the rest
        of its column are numbers.

        Raises:
            MsprobeException: pandas is not installed.
        """
        from msprobe.report.dataframe import dataframe  # most callers want the verdict alone

        return dataframe(self.comparisons())


def compare(target: PathLike, golden: PathLike, **options: Unpack[CompareOptions]) -> CompareResult:
    """Compare two dumps: documents, process folders, step folders or dump roots, as paths or URLs.

    ``options`` are those of ``CompareOptions``; without options no file is written. The verdict is ``not_comparable``
    where the runs cannot be compared, and where one of several pairs cannot be read or compared and the others agree.
    It is ``incomplete`` where nothing differs, and a record says that it holds data that cannot be compared or a rank
    is missing on one side.

    Example::

        result = msprobe.compare("bad/dump", "good/dump", output="./output")
        print(result.verdict, result.summary.first_divergence)

    Raises:
        ReadError: a path holds no dump, no pair can be read, or a mapping file is damaged.
        MsprobeException: an option is unknown, a package is missing, or a result cannot be written.
    """
    result = _compare(target, golden, options)
    alone: CompareOptions = {**options, "output": None, "junit": None}
    result.write_page = lambda path: _compare(target, golden, {**alone, "html": str(path)})
    return result


def _compare(target: PathLike, golden: PathLike, options: CompareOptions) -> CompareResult:
    settings, mapping = check_options(options)
    policy = _find_policy(settings["policy"])
    extras = load_extras(settings["metrics"], settings["noise"], settings["config"], settings["accept"])
    summary = CompareSummary(verdict="same", target=str(target), golden=str(golden), policy=policy.value)
    left, right = opened(target), opened(golden)
    try:
        mapping = with_recorded_layouts(mapping, left, right)
        located = locate(left, right, mapping)
    except NotComparableError as error:
        result = CompareResult(_not_comparable(summary, error.error_info), policy, mapping)
        _write_reports(result, settings)
        return result
    with ExitStack() as stack:
        output, html = settings["output"], settings["html"]
        pair_options = PairOptions(
            policy=policy,
            mapping=mapping,
            metrics=tuple(os.path.abspath(name) if ".py" in name else name for name in settings["metrics"]),
            noise=_absolute_path(settings["noise"]),
            config=_absolute_path(settings["config"]),
            accept=tuple(entry.said for entry in extras.accepted),
            stamp=f"{settings['suffix']}_{datetime.now().strftime('%Y%m%d%H%M%S')}",
            output=None if output is None else _output_folder(output, settings["executor"]),
            xlsx=settings["xlsx"],
            several_steps=located.several_steps,
            by_file=left.is_file(),
            failures=settings["junit"] is not None,
            every_page=len(located.pairs) <= _MOST_PAGES,
            alone=len(located.pairs) == 1,
            group_by=settings["group_by"],
            pages=None if html is None else stack.enter_context(_page_folder(Path(html))),
        )
        outcomes, last = _compare_ranks(located, pair_options, settings)
        summary.unpaired.extend(located.unpaired)
        summary.missing.extend(located.missing)
        summary.incomplete += _stopped_first(located)
        if not mapping.rank and not any(map(is_one_process, (left, right), located.places)):
            summary.notes += _ranks_of_neither(located)
        _note_accepted(summary, extras, outcomes)
        result = CompareResult(
            _summarize(summary, outcomes, mapping), policy, mapping, located.pairs, outcomes, extras, last
        )
        if summary.first_divergence is not None:
            summary.setup = _setup_differences(target, golden)
        if pair_options.group_by:
            _group_rows(summary, outcomes, pair_options)
        _write_reports(result, settings)
    return result


def _note_accepted(summary: CompareSummary, extras: Extras, outcomes: list[PairOutcome]) -> None:
    """Say in the summary what became of each accepted difference."""
    if extras.accepted:
        from msprobe.compare.accepted import uses_of  # YAML, only where differences are accepted

        summary.accepted = uses_of(extras.accepted, (found for outcome in outcomes for found in outcome.accepted))


def _group_rows(summary: CompareSummary, outcomes: list[PairOutcome], options: PairOptions) -> None:
    """Add the rows that differ by operator to the summary, and write them beside the tables."""
    from msprobe.compare.rows.operator_groups import merged_groups  # loaded where it is asked for
    from msprobe.report.operator_table import write_groups

    summary.operators = merged_groups(outcome.operators for outcome in outcomes)
    if options.output is None:
        return
    try:
        path = write_groups(summary.operators, Path(options.output), f"compare_operators{options.stamp}")
    except OSError as error:
        reason = f"the result cannot be written to {options.output} ({error.strerror or error}); choose another folder"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    summary.results.append(str(path))


def _find_policy(name: str) -> Policy:
    try:
        return Policy(name)
    except ValueError:
        known = ", ".join(policy.value for policy in Policy)
        raise MsprobeException(
            MsprobeException.INVALID_PARAM_ERROR, f"policy {name!r}; known policies: {known}"
        ) from None


def _output_folder(output: PathLike, executor: str) -> str:
    """Return the folder of the tables; the absolute one for Dask, whose workers run in other folders."""
    folder = os.fspath(output)
    return os.path.abspath(folder) if executor.startswith("dask:") else folder


def _absolute_path(file: PathLike | None) -> str | None:
    """Return the path of a file for a worker that runs in another folder."""
    if file is None:
        return None
    return str(file) if is_url(file) else os.path.abspath(file)


def _page_folder(html: Path) -> TemporaryDirectory[str]:
    """Return a temporary folder beside the HTML report, into which every worker writes its part of the report."""
    from tempfile import TemporaryDirectory

    try:
        make_folder(html.absolute().parent)
        return TemporaryDirectory(prefix=".msprobe-", dir=html.absolute().parent)
    except OSError as error:
        reason = f"the report cannot be written to {html} ({error.strerror}); choose another file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error


def _compare_ranks(
    located: Located, pair_options: PairOptions, options: CompareOptions
) -> tuple[list[PairOutcome], Comparison | None]:
    """Return the outcomes in the order of the pairs, and the comparison of a single pair compared in this process."""
    tasks = _rank_tasks(located, pair_options)
    if len(tasks) == 1 and not options["log_items"] and options["executor"] != "serial":
        tasks[0] = tasks[0]._replace(options=replace(pair_options, processes=min(cpu_count(), _MOST_PROCESSES)))
    sizes = (_document_size(place) for pair in located.pairs for place in pair)
    executor = None if options["log_items"] else find_executor(options["executor"], len(tasks), sizes)
    kept: list[Comparison] = []
    keep: Callable[[Comparison], None] | None = kept.append if len(located.pairs) == 1 else None
    if options["log_items"]:
        keep = partial(_call_each, (log_items, *([keep] if keep is not None else [])))
    answers: Iterable[list[PairOutcome]]
    if executor is None:
        answers = (compare_rank(task, keep) for task in tasks)
    else:
        answers = (outcomes_of(text) for _, text in executor.run(_WORK, [task_text(task) for task in tasks]))
    outcomes: list[PairOutcome] = []
    for answer in answers:
        outcomes += answer
        if (progress := options["progress"]) is not None:
            progress(len(outcomes), len(located.pairs))
    return sorted(outcomes, key=lambda outcome: outcome.order), kept[-1] if kept else None


def _call_each(functions: Iterable[Callable[[Comparison], None]], comparison: Comparison) -> None:
    for function in functions:
        function(comparison)


def _rank_tasks(located: Located, options: PairOptions) -> list[RankTask]:
    """Return one task per rank, with its pairs in the order of the steps."""
    ranks: dict[str, RankTask] = {}
    for order, pair in enumerate(located.pairs):
        task = ranks.setdefault(pair[0].label, RankTask([], [], options))
        task.pairs.append(pair)
        task.order.append(order)
    return list(ranks.values())


def _document_size(place: Place) -> int:
    """Return the size of a dump's document in bytes; 0 where it is unknown."""
    try:
        return int(place.document.stat().st_size)
    except (OSError, AttributeError):  # a journal alone; a store that knows no sizes
        return 0


def _setup_differences(target: PathLike, golden: PathLike) -> list[str]:
    """Return what differs between the set-ups that lie beside the dumps; nothing where the dumps lie in a store."""
    if is_url(target) or is_url(golden):
        return []
    from msprobe.setup_check.beside_dumps import differences_beside

    return differences_beside(Path(target).absolute(), Path(golden).absolute())


def _stopped_first(located: Located) -> list[str]:
    """Return a sentence for each side on which a rank died before the others."""
    for places in located.places:
        if len(places) > 1 and any(place.document.with_name(JOURNAL).is_file() for place in places):
            from msprobe.analyze.ended_run import stopped_first_notes  # loaded for runs that died only

            return stopped_first_notes(located.places)
    return []


def _ranks_of_neither(located: Located) -> list[str]:
    """Return a sentence about ranks that both runs lack, in steps that both have, by the size of their jobs."""
    sizes = {processes_of(places[0]) for places in located.places}
    if len(sizes) > 1:
        return []
    steps = dict.fromkeys(target.step for target, golden in located.pairs if target.step == golden.step)
    there = {(place.step, place.number) for places in located.places for place in places}
    lacking = [(step, rank) for step in steps for rank in range(min(sizes)) if (step, rank) not in there]
    if not lacking or any(place.kind.endswith("proc") for places in located.places for place in places):
        return []
    step, rank = lacking[0]
    first = f"rank{rank}" if step is None else f"rank{rank} of step {step}"
    end = f"in neither run, although the job has {min(sizes)} processes"
    return [Note(len(lacking), f"1 dump of a rank is {end}", f"{{}} dumps of ranks are {end}", first)]


def _summarize(summary: CompareSummary, outcomes: list[PairOutcome], mapping: MappingOptions) -> CompareSummary:
    """Add the outcomes of all pairs to the summary and return it.

    Raises:
        ReadError: no pair can be read, or none of the entries of a mapping fits any pair.
    """
    compared = [outcome for outcome in outcomes if not outcome.problem]
    if not compared:
        if outcomes[0].unreadable:
            raise ReadError(outcomes[0].problem)
        return _not_comparable(summary, outcomes[0].problem)
    for outcome in compared:
        summary.counts.merge(outcome.counts)
        summary.results.extend(outcome.results)
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    notes = [note for outcome in compared for note in outcome.notes]
    diverged = [outcome for outcome in compared if outcome.first_divergence is not None]
    if not diverged:  # what is harmless in one step says nothing beside a divergence in another one
        notes += [note for outcome in compared for note in outcome.harmless]
    if mapping.given:
        from msprobe.compare.alignment.check_mappings import unused_entry_notes

        try:
            notes += unused_entry_notes(mapping, [outcome.unused_entries for outcome in compared])
        except ReadError:
            for table in summary.results:  # they would look like the tables of a mapping that was applied
                Path(table).unlink(missing_ok=True)
            raise
    summary.wrong_modules = [one for outcome in compared for one in outcome.wrong_modules]
    summary.order_blind = any(outcome.order_blind for outcome in compared)
    partial = [note for outcome in compared for note in outcome.partial]
    ended = summary.incomplete
    summary.incomplete = [*summary.unpaired, *merged_notes([*partial, *ended])]
    summary.notes = merged_notes([*problems, *notes, *ended, *summary.notes])
    summary.reason = "; ".join(summary.notes)
    if diverged:
        summary.first_divergence = _earliest(compared, diverged).first_divergence
    elif problems:
        return _not_comparable(summary, f"{len(problems)} of {len(outcomes)} pairs: {summary.reason}")
    return _with_verdict(summary, compared)


def _with_verdict(summary: CompareSummary, compared: list[PairOutcome]) -> CompareSummary:
    """Set the verdict of several pairs that could be compared: the worst of them."""
    checked, lost = (any(values) for values in zip(*((one.checked, one.lost) for one in compared), strict=True))
    diverged = summary.first_divergence is not None
    summary.verdict = verdict_text(checked=checked, diverged=diverged, lost=lost or bool(summary.missing))
    if summary.verdict == "not_comparable":
        return _not_comparable(summary, "no value could be checked on both sides; see Err_message in the result table")
    return summary


def _earliest(compared: list[PairOutcome], diverged: list[PairOutcome]) -> PairOutcome:
    """Return the outcome of the rank that diverged first, in the first step in which a rank diverged."""
    step = min((outcome.step for outcome in diverged), key=lambda step: -1 if step is None else step)
    if sum(outcome.step == step for outcome in diverged) == 1:
        return next(outcome for outcome in diverged if outcome.step == step)
    from msprobe.analyze.rank_order import earliest  # loaded for several ranks only

    findings = [outcome.finding for outcome in compared if outcome.step == step and outcome.finding is not None]
    first = earliest(findings)[0].rank
    return next(
        outcome for outcome in diverged if outcome.step == step and outcome.finding and outcome.finding.rank == first
    )


def _not_comparable(summary: CompareSummary, reason: str) -> CompareSummary:
    summary.verdict = "not_comparable"
    summary.reason = reason
    return summary


def _write_reports(result: CompareResult, options: CompareOptions) -> None:
    for kind in ("junit", "html"):
        file = options[kind]
        if file is None:
            continue
        try:
            if kind == "junit":
                from msprobe.report.junit import write_junit  # the XML library, only where it is used

                write_junit(Path(file), result.summary, result.outcomes)
            else:
                from msprobe.report.html.page import write_page

                write_page(Path(file), result.summary, result.outcomes)
        except OSError as error:
            reason = f"the report cannot be written to {file} ({error.strerror or error}); choose another file"
            raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
