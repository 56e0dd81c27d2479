"""All pairs of one rank, step after step: load, compare, judge, write. At most one pair is in memory at a time.

Whether a pair of dumps is shared by several processes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

from msprobe.analyze.first_divergence import first_divergence
from msprobe.analyze.rank_order import rank_finding
from msprobe.compare.comparison import Comparison, StepHistory, compare_dumps, counts, levels
from msprobe.compare.coverage import incomplete
from msprobe.compare.extensions import Extras, load_extras
from msprobe.compare.header_checks import header_notes, version_notes
from msprobe.compare.parallel.layout import load_pair
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.core.log import logger
from msprobe.core.store.layout import DEBUG, DUMP, JOURNAL
from msprobe.core.store.reader import Place, paused_gc
from msprobe.core.store.safe_files import make_folder
from msprobe.jobs.row_observer import Seen
from msprobe.jobs.share_rows import Rows, shared_rows
from msprobe.numerics.verdict import Level
from msprobe.report.csv_table import chunks, write_chunks
from msprobe.report.rank_outcome import PairOptions, PairOutcome, RankTask, outcomes_text, task_of

WORTH_BYTES = 4_000_000  # below, a copy of this process costs what it saves


WORTH_ROWS = 10_000


def can_split_read(places: tuple[Place, Place], options: PairOptions) -> bool:
    """Whether several processes may read a pair: a large one whose calls pair by their names, and whose verdicts need
    no look at all records."""
    if not _may_share(options) or options.noise is not None or options.config:
        return False
    if options.mapping.given or options.mapping.spread or not all(map(_is_large, places)):
        return False
    return _can_fork()


def may_share_rows(rows: int, options: PairOptions) -> bool:
    """Whether several processes may make the rows of a pair that one of them has compared."""
    return _may_share(options) and rows > WORTH_ROWS and _can_fork()


def _may_share(options: PairOptions) -> bool:
    """Whether the rows become text that other processes can make; a workbook is written by one."""
    return options.processes > 1 and options.output is not None and not options.xlsx


def _can_fork() -> bool:
    from msprobe.compare.workers.fork_channel import can_fork  # what divides is not free

    return can_fork()


def _is_large(place: Place) -> bool:
    """Whether a finished document lies in a file, and is large."""
    document = place.document
    if type(place) is not Place or not isinstance(cast(object, document), Path) or document.name != DUMP:
        return False
    try:
        return document.stat().st_size > WORTH_BYTES and not document.with_name(JOURNAL).exists()
    except OSError:
        return False


Kept = Callable[[Comparison], None]


@dataclass(slots=True)
class _RunHistory(StepHistory):
    """What a step hands on to the next one, and what holds for all of them."""

    agreed: bool = False
    extras: Extras = field(default_factory=Extras)


_MakeRows = Callable[[_RunHistory], AbstractContextManager[Rows]]


def compare_rank_text(text: str) -> str:
    """``compare_rank`` for another process: JSON in, JSON out."""
    return outcomes_text(compare_rank(task_of(text)))


def compare_rank(task: RankTask, keep: Kept | None = None) -> list[PairOutcome]:
    """One outcome per pair; a pair that cannot be read or compared is a stated problem and the next one follows.

    ``keep`` is called with each comparison made.

    Raises:
        MsprobeException: the output folder cannot be written.
    """
    history = _RunHistory(extras=load_extras(task.options.metrics, task.options.noise, task.options.config))
    found = []
    for order, (target, golden) in zip(task.order, task.pairs, strict=True):
        outcome = PairOutcome(order, target.step, target.label, str(target.document), str(golden.document))
        with paused_gc():
            try:
                outcome = _compare(outcome, (target, golden), history, task.options, keep)
            except (NotComparableError, ReadError) as error:
                outcome.problem, outcome.unreadable = error.error_info, isinstance(error, ReadError)
        found.append(outcome)
    return found


def _compare(
    outcome: PairOutcome, places: tuple[Place, Place], history: _RunHistory, options: PairOptions, keep: Kept | None
) -> PairOutcome:
    if can_split_read(places, options):
        from msprobe.jobs.share_rows import divided  # not free, and only for large pairs

        done = _together(outcome, partial(divided, places, options), places[0], history)
        if done is not None:
            return done
    target, golden, outcome.notes = load_pair(*places)
    if options.mapping.given:
        from msprobe.compare.alignment.check_mappings import unapplied, unapplied_notes  # not free, where mappings are

        outcome.unapplied = unapplied(options.mapping, target, golden)
        if options.alone:
            unapplied_notes(options.mapping, [outcome.unapplied])  # an error leaves no table behind
    comparison = compare_dumps(
        target, golden, options.policy, mapping=options.mapping, history=history, extras=history.extras
    )
    done = None
    if may_share_rows(comparison.table.rows, options):
        done = _together(outcome, lambda _: shared_rows(comparison, options), places[0], history)
    if done is None:
        _conclude(outcome, Rows(comparison, options, comparison.blocks), places[0], history)
    if keep is not None:
        keep(comparison)
    return done or outcome


def _together(outcome: PairOutcome, make: _MakeRows, place: Place, history: _RunHistory) -> PairOutcome | None:
    """The outcome by several processes; None, with nothing changed, where it has to be done by one."""
    from msprobe.jobs.share_rows import LostError, UndividedError  # not free, and only for large pairs

    mine, own = (
        replace(outcome, notes=[*outcome.notes]),
        replace(history, cancelled_gradients=dict(history.cancelled_gradients)),
    )
    try:
        with make(own) as rows:
            _conclude(mine, rows, place, own)
    except UndividedError:
        return None
    except LostError:
        logger.warning("A process that compared a part of %s is gone; one process compares it again.", outcome.place)
        return None
    history.noise, history.cancelled_gradients, history.agreed = own.noise, own.cancelled_gradients, own.agreed
    return mine


def _conclude(outcome: PairOutcome, rows: Rows, place: Place, history: _RunHistory) -> None:
    comparison = rows.comparison
    found = first_divergence(comparison, later_step=history.agreed)
    history.agreed = found is None
    own = place.number if place.kind == "rank" else None
    outcome.finding = rank_finding(comparison, -1 - outcome.order if own is None else own, found)
    if found is None:
        history.noise = comparison.judged.noise
    else:
        outcome.entry, outcome.first_divergence = found.entry, found.found
    outcome.counts = counts(comparison, _written(outcome, rows, place))
    outcome.checked = bool((comparison.judged.level == Level.PASS).any())
    outcome.partial = _partial(comparison)
    strange = [note for dump in (comparison.target, comparison.golden) for note in header_notes(dump)]
    outcome.notes = [*outcome.notes, *strange, *outcome.partial]
    if comparison.table.layer_map is not None:
        from msprobe.report.mapping_files import told

        outcome.notes.append(told(comparison.table.layer_map))
    if history.extras.noise is not None:
        outcome.notes += history.extras.noise.dtypes(comparison.table).notes()
    if history.extras.calibration is not None:
        outcome.notes += history.extras.calibration.notes(comparison.table)


def _partial(comparison: Comparison) -> list[str]:
    """What one side lacks as a whole, and values that could not be compared."""
    dumps = comparison.target, comparison.golden
    unfinished = [
        f"{dump.place.document.parent} was read from its journal: the run is not finished or died"
        for dump in dumps
        if dump.recovered
    ]
    unfinished += [note for dump in dumps for note in version_notes(dump)]
    return unfinished + incomplete(comparison)


def _written(outcome: PairOutcome, rows: Rows, place: Place) -> list[str]:
    """Write what the options ask for; returns the level of every row."""
    comparison, options = rows.comparison, rows.options
    if options.pages is not None and not options.every_page and outcome.first_divergence is None:
        options = replace(options, pages=None)
    if options.output is None and options.pages is None and not options.failures:
        return levels(comparison)
    seen = Seen(options, comparison.table, comparison.mode, comparison.columns)
    stem = _stem(place, options)
    folder = Path(options.output or options.pages or ".")
    try:
        if options.output is None:
            for _ in seen.through(rows.blocks()):
                pass
        else:
            make_folder(folder)
            paths = _table(folder, stem, rows, seen)
            if options.mapping.layer_mapping is not None:
                from msprobe.report.mapping_files import write_data_mapping

                paths.append(write_data_mapping(folder, _stem(place, options, "data_mapping"), comparison.table))
            if comparison.table.layer_map is not None:
                from msprobe.report.mapping_files import write_layer_map

                map_stem = _stem(place, options, "layer_mapping")
                paths.append(write_layer_map(folder, map_stem, comparison, comparison.table.layer_map))
            outcome.results = [str(path) for path in paths]
        if seen.page is not None and options.pages is not None:
            outcome.page = str(seen.page.write(Path(options.pages), stem, comparison.measured.worst))
    except OSError as error:
        reason = f"the result cannot be written to {folder} ({error.strerror or error}); choose another folder with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    outcome.failures, outcome.failed = seen.failures, seen.failed
    return seen.levels


def _table(folder: Path, stem: str, rows: Rows, seen: Seen) -> list[Path]:
    columns = rows.comparison.columns
    blocks = seen.through(rows.blocks())
    if not rows.options.xlsx:
        return write_chunks(folder, stem, columns, chain(chunks(blocks), rows.further(seen.merge)))
    from msprobe.report.xlsx_table import write_workbook

    return write_workbook(folder, stem, columns, blocks)


def _stem(place: Place, options: PairOptions, what: str = "compare_result") -> str:
    head = f"debug_{what}" if place.document.name == DEBUG else what
    label = f"_{place.label}" if place.label and not options.by_file else ""
    step = f"_step{place.step}" if options.several_steps else ""
    return f"{head}{label}{step}{options.stamp}"
