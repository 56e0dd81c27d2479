"""Tell apart the runs that have recorded into one dump_path, and choose one of them.

The folders of a later run lie beside those of an earlier one, where ranks, steps or process ids differ. Each document
says in its header when its program and its step began, and how many processes its job has (``run_of_step``). Processes
of one run exist at the same time, so dumps belong to one run when the spans from the begin of the program to that of
its last step overlap. Clocks of several machines may be minutes apart: ranks with different numbers belong to one run
too, unless their jobs have other numbers of processes. Dumps without these times, of other tools and of earlier
versions, are taken as one run, the oldest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.core.errors import ReadError
from msprobe.core.host import process_count, program_start
from msprobe.core.log import first_time, logger
from msprobe.core.store.layout import JOURNAL
from msprobe.core.store.safe_files import regular

if TYPE_CHECKING:
    from msprobe.core.store.reader import Place

ALL = "all"
_BEGIN = program_start()  # forked processes inherit it: they belong to the run of their parent
_HEAD_BYTES = 1 << 16
_TIMES = re.compile(
    rb'"run":\s*\{\s*"program_began":\s*([0-9.]+),\s*"step_began":\s*([0-9.]+)(?:,\s*"processes":\s*([0-9]+))?'
)


def begin_run() -> None:
    """Let the steps from now on belong to another run than the earlier ones of this process."""
    global _BEGIN
    _BEGIN = time.time()


def run_of_step() -> dict[str, float]:
    """Return the value of ``run`` in the header of a step that begins now; times are in seconds since 1970."""
    processes = process_count()
    return {
        "program_began": round(_BEGIN, 3),
        "step_began": round(time.time(), 3),
        **({"processes": processes} if processes else {}),
    }


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """The dumps of one run.

    Attributes:
        places: where they are.
        unread: a description of each other run in the folder, where nobody said which one to read.
    """

    places: list[Place]
    unread: list[str] = field(default_factory=list)


def chosen_run(places: Sequence[Place], path: Path, run: str | None = None) -> ChosenRun:
    """Return the places below ``path`` that belong to one run; where there are several, one line names them.

    Args:
        places: the places of all runs, sorted.
        path: the folder that the user gave, for messages.
        run: the number of the run, from 1 for the oldest; ``all`` for every run together, None for the newest.

    Raises:
        ReadError: ``run`` is no number of a run.
    """
    runs = _runs(places, path) if len(places) > 1 else [list(places)]
    if len(runs) == 1 or run == ALL:
        return ChosenRun(list(places))
    texts = [f"{number}: {_text(members)}" for number, members in enumerate(runs, 1)]
    names = "; ".join(texts)
    if run is not None and (not run.isdecimal() or not 1 <= int(run) <= len(runs)):
        raise ReadError(
            f"{path}: there is no run {run!r}; it holds {len(runs)} runs ({names}); give 1 to {len(runs)}, or all"
        )
    if run is not None:
        return ChosenRun(runs[int(run) - 1])
    if first_time(("runs", str(path))):
        logger.warning(
            "%s holds %d runs (%s): the newest is read; --run 1 to %d chooses another, --run all takes them together",
            path,
            len(runs),
            names,
            len(runs),
        )
    return ChosenRun(runs[-1], texts[:-1])


def tell_of_later_run(places: Sequence[Place], first: Sequence[Place]) -> None:
    """Log that dumps of one step are of an earlier run, where those of the first step of their folder are of a later
    one; of the same ranks, as the clocks of others may differ."""
    begun = [(one, span) for one in first if (span := _span(one, 0)) is not None]
    for place in places:
        own = _span(place, 0)
        later = [
            span
            for one, span in begun
            if own is not None and span.begin > own.end and (one.label == place.label or not _is_rank(place))
        ]
        if own is not None and later and first_time(("later run", str(place.document))):
            logger.warning(
                "%s is of an earlier run, begun %s: step %s beside it is of one begun %s",
                place.document,
                _when(own),
                first[0].step,
                _when(max(later, key=lambda span: span.begin)),
            )
            return


@dataclass(frozen=True, slots=True)
class _Span:
    """What the header of one dump says of its run: begin of the program, last step, number of processes (0: not said).

    ``index`` is the number of its place.
    """

    begin: float
    end: float
    index: int
    program: float
    processes: int


class _Run:
    """The dumps of one run, collected in the order in which their programs began.

    Attributes:
        members: the numbers of their places.
        apart: whether ranks are in it that did not exist at the same time as the others, by their clocks.
    """

    def __init__(self) -> None:
        self.members: list[int] = []
        self.apart = False
        self._end = float("-inf")
        self._programs: dict[int | None, set[float]] = {}
        self._only_ranks = True
        self._processes: set[int] = set()

    def takes(self, place: Place, span: _Span) -> bool:
        """Add the dump if it is of this run; return whether it is."""
        overlaps = span.begin <= self._end
        if self.members and not overlaps and not self._is_further_rank(place, span):
            return False
        self.apart = self.apart or bool(self.members and not overlaps)
        self.members.append(span.index)
        self._end = max(self._end, span.end)
        self._programs.setdefault(place.number, set()).add(span.program)
        self._only_ranks = self._only_ranks and _is_rank(place)
        self._processes |= {span.processes} - {0}
        return True

    def _is_further_rank(self, place: Place, span: _Span) -> bool:
        """Return whether the dump is of a rank that the run does not have yet, and of a job of the same size."""
        if not self._only_ranks or not _is_rank(place):
            return False
        of_same_size = not span.processes or self._processes <= {span.processes}
        return of_same_size and self._programs.get(place.number, {span.program}) == {span.program}


def processes_of(place: Place) -> int:
    """Return how many processes the job of a dump has; 0 where its header does not say so."""
    span = _span(place, 0)
    return 0 if span is None else span.processes


def _is_rank(place: Place) -> bool:
    return place.number is not None and place.kind.removeprefix(f"{place.mode}_") == "rank"


def _runs(places: Sequence[Place], path: Path) -> list[list[Place]]:
    """Return the places of each run, the oldest run first."""
    spans = [_span(place, index) for index, place in enumerate(places)]
    runs: list[_Run] = []
    for span in sorted(filter(None, spans), key=lambda span: (span.begin, span.end, span.index)):
        if not (runs and runs[-1].takes(places[span.index], span)):
            runs.append(_Run())
            runs[-1].takes(places[span.index], span)
    if any(run.apart for run in runs) and first_time(("clocks", str(path))):
        logger.warning(
            "%s: by their clocks, its ranks were not there at the same time; they are read as one run, because no rank "
            "is there twice. Where an earlier run left some of them, choose with --rank, or record the run again into "
            "an empty folder",
            path,
        )
    without = [index for index, span in enumerate(spans) if span is None]
    members: Iterable[list[int]] = [*([without] if without else []), *(run.members for run in runs)]
    return [[places[index] for index in sorted(run)] for run in members]


def _span(place: Place, index: int) -> _Span | None:
    """Return what a dump says of its run; None when its header does not say when its program began."""
    for path in (place.document.with_name(JOURNAL), place.document):
        try:
            with regular(path).open("rb") as file:
                match = _TIMES.search(file.read(_HEAD_BYTES))
        except OSError:
            continue
        if match is None:
            return None
        program, step = float(match[1]), float(match[2])
        return _Span(min(program, step), max(program, step), index, program, int(match[3] or 0))
    return None


def _text(places: Sequence[Place]) -> str:
    """Return the steps and processes of a run, and when it began."""
    steps = sorted({place.step for place in places if place.step is not None})
    labels = sorted({place.label for place in places if place.label})
    parts = []
    if steps:
        parts.append(f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}")
    if labels:
        parts.append(f"of {labels[0]}" if len(labels) == 1 else f"of {len(labels)} processes")
    span = _span(places[0], 0)
    if span is not None:
        parts.append(f"begun {_when(span)}")
    return " ".join(parts) or "1 dump"


def _when(span: _Span) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(span.begin))
