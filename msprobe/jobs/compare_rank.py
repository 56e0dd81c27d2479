"""All pairs of one rank, step after step: load, compare, judge, write. One pair is in memory at a time, two where the
next step has to show what a step leaves.

``compare_rank`` is the work of one task; ``compare_rank_text`` is the same for another process. A large pair is
compared by several processes (``can_split_read``), or by one while several make its rows (``may_share_rows``); when a
process is lost, one process does the work again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msprobe.compare.agreement import is_order_blind
from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps, counts, level_names_of
from msprobe.compare.coverage import any_checked, coverage_of
from msprobe.compare.dump_pairs import following
from msprobe.compare.extensions import Extras, load_extras
from msprobe.compare.header_checks import header_notes, version_notes
from msprobe.compare.parallel.layout import members_of
from msprobe.compare.parallel.merged_pair import load_pair
from msprobe.compare.records.note import Note
from msprobe.compare.records.run_end import end_notes
from msprobe.compare.rows.summary import Counts
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.core.host import can_fork, paused_gc
from msprobe.core.log import logger
from msprobe.core.store.layout import DEBUG, DUMP, JOURNAL
from msprobe.core.store.reader import Place, damage_named
from msprobe.core.store.record_walk import INPUTS_FED, first_damage
from msprobe.core.store.safe_files import make_folder
from msprobe.jobs.row_observer import RowObserver
from msprobe.jobs.share_rows import Rows, shared_rows, split_compare, table_format
from msprobe.report.mapping_files import layer_map_note, write_data_mapping, write_layer_map
from msprobe.report.rank_outcome import PairOptions, PairOutcome, RankTask, outcomes_text, task_of

if TYPE_CHECKING:
    from msprobe.analyze.first_divergence import Divergence

WORTH_BYTES, WORTH_ROWS = 4_000_000, 10_000
"""Below these sizes of a document and of a table, copying this process costs what it saves."""

KeepComparison = Callable[[Comparison], None]


def can_split_read(places: tuple[Place, Place], options: PairOptions) -> bool:
    """Return whether several processes may read and compare the parts of a pair.

    The pair has to be large, its calls have to pair by their names, and no verdict may need all records.
    """
    if not _may_share(options) or options.noise is not None or options.config or options.accept or options.group_by:
        return False
    if (
        options.mapping.given
        or options.mapping.spread
        or not options.mapping.as_recorded
        or not all(map(_is_large, places))
    ):
        return False
    return can_fork()


def may_share_rows(rows: int, options: PairOptions) -> bool:
    """Return whether several processes may make the rows of a pair that this process has compared."""
    return _may_share(options) and rows > WORTH_ROWS and can_fork()


def _may_share(options: PairOptions) -> bool:
    """Return whether the rows become text, which other processes can make."""
    return options.processes > 1 and options.output is not None


def _is_large(place: Place) -> bool:
    """Return whether a dump is a large document in a local file, and finished."""
    document = place.document
    if type(place) is not Place or not isinstance(cast(object, document), Path) or document.name != DUMP:
        return False
    try:
        return document.stat().st_size > WORTH_BYTES and not document.with_name(JOURNAL).exists()
    except OSError:
        return False


@dataclass(slots=True)
class _RunHistory(StepHistory):
    """What a step hands on to the next step, and what holds for all steps.

    Attributes:
        agreed: whether the step before had no divergence.
        wrong_modules: whether an earlier step had wrong modules, of a run whose modules were fed.
        extras: metrics, noise profile and matrices of the user.
    """

    agreed: bool = False
    wrong_modules: bool = False
    extras: Extras = field(default_factory=Extras)


_MakeRows = Callable[[_RunHistory], AbstractContextManager[Rows]]


def compare_rank_text(text: str) -> str:
    """Compare one rank for another process: take the task as JSON, return the outcomes as JSON."""
    return outcomes_text(compare_rank(task_of(text)))


def compare_rank(task: RankTask, keep: KeepComparison | None = None) -> list[PairOutcome]:
    """Compare the pairs of a task and return one outcome per pair.

    A pair that cannot be read or compared gets an outcome with a ``problem``, and the next pair follows. ``keep`` is
    called with each comparison made.

    Raises:
        MsprobeException: the output folder cannot be written.
    """
    options = task.options
    extras = load_extras(options.metrics, options.noise, options.config, options.accept or None)
    history = _RunHistory(extras=extras)
    outcomes: list[PairOutcome] = []
    for order, (target, golden), after in zip(task.order, task.pairs, following(task.pairs), strict=True):
        history.look_ahead(after, options.policy, options.mapping)
        outcome = PairOutcome(order, target.step, target.label, str(target.document), str(golden.document))
        try:
            with paused_gc(), damage_named(*members_of(target), *members_of(golden)):
                outcome = _compare(outcome, (target, golden), history, options, keep)
        except (NotComparableError, ReadError) as error:
            outcome.problem, outcome.unreadable = error.error_info, isinstance(error, ReadError)
        outcomes.append(outcome)
    return outcomes


def _compare(
    outcome: PairOutcome,
    places: tuple[Place, Place],
    history: _RunHistory,
    options: PairOptions,
    keep: KeepComparison | None,
) -> PairOutcome:
    if can_split_read(places, options):
        done = _with_workers(outcome, partial(split_compare, places, options), places[0], history)
        if done is not None:
            return done
    target, golden, outcome.notes = load_pair(*places)
    if options.mapping.given:
        from msprobe.compare.alignment.check_mappings import (  # loads YAML
            unused_entry_notes,
            unused_mapping_entries,
        )

        outcome.unused_entries = unused_mapping_entries(options.mapping, target, golden)
        if options.alone:
            unused_entry_notes(options.mapping, [outcome.unused_entries])  # an error leaves no table behind
    comparison = compare_dumps(
        target, golden, options.policy, mapping=options.mapping, history=history, extras=history.extras
    )
    comparison = _accepted(comparison, outcome, history)
    outcome.tokens = _tokens(comparison)
    done = None
    if may_share_rows(comparison.table.row_count, options):
        done = _with_workers(outcome, lambda _: shared_rows(comparison, options), places[0], history)
    if done is None:
        _finish_pair(outcome, Rows(comparison, options, comparison.blocks), places[0], history)
    if keep is not None:
        keep(comparison)
    return done or outcome


def _name_token(divergence: Divergence, comparison: Comparison) -> None:
    """Fill in which token of the compared request differs first."""
    from msprobe.compare.requests.first_token import first_token  # only where a request is compared

    folders = comparison.target.tensor_folder, comparison.golden.tensor_folder
    found = first_token(comparison.table, comparison.judged, folders, divergence.entry)
    divergence.description.request, divergence.description.token = found


def _tokens(comparison: Comparison) -> str:
    """Return the positions of the tokens that are compared of a request; "" without a request."""
    partial = comparison.table.partial
    return "" if partial is None or partial.request is None else partial.request.positions


def _accepted(comparison: Comparison, outcome: PairOutcome, history: _RunHistory) -> Comparison:
    """Return the comparison without the differences that the user accepts, and note them in the outcome."""
    if not history.extras.accepted:
        return comparison
    from msprobe.analyze.accepted_differences import accept_differences  # only where differences are accepted

    accepted = accept_differences(comparison, history.extras.accepted, history, later_step=history.agreed)
    outcome.accepted, outcome.hidden = accepted.findings, accepted.hidden
    return accepted.comparison


def _with_workers(outcome: PairOutcome, make: _MakeRows, place: Place, history: _RunHistory) -> PairOutcome | None:
    """Return the outcome that several processes made; None, and nothing is changed, where one process has to do it."""
    from msprobe.compare.workers.fork_channel import LostError, UndividedError  # loaded for large pairs only

    result, own = (
        replace(outcome, notes=[*outcome.notes]),
        replace(history, cancelled_gradients=history.cancelled_gradients.copy()),
    )
    try:
        with make(own) as rows:
            _finish_pair(result, rows, place, own)
    except UndividedError:
        return None
    except LostError:
        logger.warning("A process that compared a part of %s is gone; one process compares it again.", outcome.place)
        return None
    history.noise, history.cancelled_gradients, history.agreed = own.noise, own.cancelled_gradients, own.agreed
    return result


def _finish_pair(outcome: PairOutcome, rows: Rows, place: Place, history: _RunHistory) -> None:
    """Find the first divergence, write the rows, and complete the outcome."""
    comparison = rows.comparison
    divergence = None
    if comparison.row_levels.diverging.any() or comparison.unshown_setting is not None or comparison.ends_apart:
        from msprobe.analyze.first_divergence import first_divergence  # loaded where runs differ

        divergence = first_divergence(comparison, later_step=history.agreed)
    if INPUTS_FED in comparison.target.header:
        divergence = _judge_modules(comparison, outcome, divergence, history)
    history.agreed = divergence is None and history.accepted_spread == 0.0
    if not rows.options.alone:
        from msprobe.analyze.rank_order import rank_finding  # loaded for several ranks only

        # A pair of folders that are no ranks gets a negative number of its own, which no rank has.
        rank = place.number if place.kind == "rank" and place.number is not None else -1 - outcome.order
        outcome.finding = rank_finding(comparison, rank, divergence)
    if divergence is None:
        history.noise = comparison.judged.noise
        outcome.harmless = _harmless(comparison)
    else:
        from msprobe.compare.advice import advice  # loaded where runs differ

        outcome.entry, outcome.first_divergence = divergence.entry, divergence.description
        outcome.notes += advice(comparison)
        if outcome.tokens:
            _name_token(divergence, comparison)
    outcome.counts = _counted(outcome, rows, place)
    outcome.checked = any_checked(comparison) or _ends_alike(comparison)
    outcome.order_blind = is_order_blind(comparison)
    coverage = coverage_of(comparison)
    damaged = _damaged_headers(comparison)
    outcome.lost = outcome.hidden + damaged + coverage.lost
    outcome.partial = _unfinished(comparison) + outcome.hidden + damaged + coverage.incomplete
    headers = [note for dump in (comparison.target, comparison.golden) for note in header_notes(dump)]
    outcome.notes = [*outcome.notes, *headers, *outcome.partial, *coverage.notes]
    if comparison.table.layer_map is not None:
        outcome.notes.append(layer_map_note(comparison.table.layer_map))
    if history.extras.noise is not None:
        outcome.notes += history.extras.noise.dtypes(comparison.table).notes()
    if history.extras.calibration is not None:
        outcome.notes += history.extras.calibration.notes(comparison.table)


def _counted(outcome: PairOutcome, rows: Rows, place: Place) -> Counts:
    """Write the rows, return their numbers, and note them by operator where that is asked for."""
    comparison, levels = rows.comparison, _write(outcome, rows, place)
    if rows.options.group_by:
        from msprobe.compare.rows.operator_groups import operator_groups  # loaded where it is asked for

        where = outcome.step, place.number if place.kind == "rank" else None
        outcome.operators = operator_groups(comparison.table, comparison.judged, levels, where)
    return counts(comparison, levels)


def _judge_modules(
    comparison: Comparison, outcome: PairOutcome, first: Divergence | None, history: _RunHistory
) -> Divergence | None:
    """Fill in every wrong module of a fed run; return the first divergence, which only a live input may show.

    After a step with wrong modules a training goes on with other parameters: its modules are not judged any more.
    """
    from msprobe.analyze.first_divergence import Divergence  # loaded for fed runs only
    from msprobe.analyze.wrong_modules import has_other_parameters, wrong_modules

    if history.wrong_modules and has_other_parameters(comparison):
        outcome.notes.append("a step before has wrong modules, and the parameters follow from it")
        return first
    found = wrong_modules(comparison)
    history.wrong_modules = history.wrong_modules or bool(found)
    outcome.wrong_modules = [one.description for one in found]
    return first or (Divergence(*found[0]) if found else None)


def _ends_alike(comparison: Comparison) -> bool:
    """Return whether what leaves the step was compared by value, and agrees, where no call has a counterpart."""
    return not comparison.table.published and comparison.step_end().sinks.agree


def _harmless(comparison: Comparison) -> list[str]:
    """Return sentences about other code and calls that differ without consequence."""
    table = comparison.table
    if not table.alone and not table.harmless:
        return []
    from msprobe.compare.regions.notes import harmless_notes, other_code_notes  # loaded where runs differ

    return other_code_notes(table, comparison.target, comparison.golden) + harmless_notes(table)


def _damaged_headers(comparison: Comparison) -> list[str]:
    """Return sentences about tensors beside the calls that are damaged, such as a gradient as an optimizer got it."""
    found: dict[Path, str] = {}
    for dump in (comparison.target, comparison.golden):
        header = {name: value for name, value in dump.header.items() if name != "moves"}  # many texts
        found[dump.place.document] = first_damage(header)
    what = "damaged outside of the records of calls"
    damaged = [f"{document}: {reason}" for document, reason in found.items() if reason]
    return [Note(1, f"1 dump is {what}", f"{{}} dumps are {what}", one) for one in damaged]


def _unfinished(comparison: Comparison) -> list[str]:
    """Return sentences about runs that died or still run, and about formats that this version does not know."""
    dumps = comparison.target, comparison.golden
    unfinished = end_notes(*dumps)
    unfinished += [note for dump in dumps for note in version_notes(dump)]
    return unfinished


def _write(outcome: PairOutcome, rows: Rows, place: Place) -> list[str]:
    """Write the files that the options ask for, and return the level of every row.

    Raises:
        MsprobeException: the output folder cannot be written.
    """
    comparison, options = rows.comparison, rows.options
    if options.pages is not None and not options.every_page and outcome.first_divergence is None:
        options = replace(options, pages=None)
    if options.output is None and options.pages is None and not options.failures:
        return level_names_of(comparison)
    observer = RowObserver(options, comparison.table, comparison.mode, comparison.columns)
    stem = _stem(place, options, tokens=outcome.tokens)
    folder = Path(options.output or options.pages or ".")
    try:
        if options.output is None:
            for _ in observer.through(rows.blocks()):
                pass
        else:
            make_folder(folder)
            paths = _write_table(folder, stem, rows, observer)
            if options.mapping.layer_mapping is not None:
                paths.append(
                    write_data_mapping(folder, _stem(place, options, "data_mapping", outcome.tokens), comparison.table)
                )
            if comparison.table.layer_map is not None:
                map_stem = _stem(place, options, "layer_mapping", outcome.tokens)
                paths.append(write_layer_map(folder, map_stem, comparison, comparison.table.layer_map))
            outcome.results = [str(path) for path in paths]
        if observer.page is not None and options.pages is not None:
            outcome.page = str(observer.page.write(Path(options.pages), stem, comparison.measured.worst))
    except OSError as error:
        reason = f"the result cannot be written to {folder} ({error.strerror or error}); choose another folder with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    outcome.failures, outcome.failed = observer.failures, observer.failed
    return observer.levels


def _write_table(folder: Path, stem: str, rows: Rows, observer: RowObserver) -> list[Path]:
    table = table_format(rows.options)
    own = table.row_texts(observer.through(rows.blocks()), 0)
    return table.write_chunks(folder, stem, rows.comparison.columns, chain(own, rows.further(observer.merge)))


def _stem(place: Place, options: PairOptions, what: str = "compare_result", tokens: str = "") -> str:
    """Return the name of a result file without its suffix, such as ``compare_result_rank0_20260101120000``."""
    head = f"debug_{what}" if place.document.name == DEBUG else what
    label = f"_{place.label}" if place.label and not options.by_file else ""
    step = f"_step{place.step}" if options.several_steps else ""
    part = f"_tokens{tokens}" if tokens else ""
    return f"{head}{label}{step}{part}{options.stamp}"
