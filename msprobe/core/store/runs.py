"""Tell apart the runs that have recorded into one dump_path, and choose one of them.

The folders of a later run lie beside those of an earlier one, where ranks, steps or process ids differ. Each document
says in its header when its program and its step began (``run_times``). Processes of one run exist at the same time, so
dumps belong to one run when the spans from the begin of the program to that of its last step overlap. Dumps without
these times, of other tools and of earlier versions, are taken as one run, the oldest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.core.errors import ReadError
from msprobe.core.host import program_start
from msprobe.core.log import first_time, logger
from msprobe.core.store.layout import JOURNAL

if TYPE_CHECKING:
    from msprobe.core.store.reader import Place

ALL = "all"
_BEGIN = program_start()  # forked processes inherit it: they belong to the run of their parent
_HEAD_BYTES = 1 << 16
_TIMES = re.compile(rb'"run":\s*\{\s*"program_began":\s*([0-9.]+),\s*"step_began":\s*([0-9.]+)')


def run_times() -> dict[str, float]:
    """Return the value of ``run`` in the header of a step that begins now, in seconds since 1970."""
    return {"program_began": round(_BEGIN, 3), "step_began": round(time.time(), 3)}


def chosen_run(places: Sequence[Place], path: Path, run: str | None = None) -> list[Place]:
    """Return the places below ``path`` that belong to one run; where there are several, one line names them.

    Args:
        places: the places of all runs, sorted.
        path: the folder that the user gave, for messages.
        run: the number of the run, from 1 for the oldest; ``all`` for every run together, None for the newest.

    Raises:
        ReadError: ``run`` is no number of a run.
    """
    runs = _runs(places) if len(places) > 1 else [list(places)]
    if len(runs) == 1 or run == ALL:
        return list(places)
    names = "; ".join(f"{number}: {_text(members)}" for number, members in enumerate(runs, 1))
    if run is not None and (not run.isdecimal() or not 1 <= int(run) <= len(runs)):
        raise ReadError(
            f"{path}: there is no run {run!r}; it holds {len(runs)} runs ({names}); give 1 to {len(runs)}, or all"
        )
    number = len(runs) if run is None else int(run)
    if run is None and first_time(("runs", str(path))):
        logger.warning(
            "%s holds %d runs (%s): the newest is read; --run 1 to %d chooses another, --run all takes them together",
            path,
            len(runs),
            names,
            len(runs),
        )
    return runs[number - 1]


def _runs(places: Sequence[Place]) -> list[list[Place]]:
    """Return the places of each run, the oldest run first."""
    spans: list[tuple[float, float, int]] = []
    runs: list[list[int]] = []
    without: list[int] = []
    for index, place in enumerate(places):
        times = _times(place)
        if times is None:
            without.append(index)
        else:
            spans.append((min(times), max(times), index))
    end = float("-inf")
    for begin, last, index in sorted(spans):
        if begin > end:
            runs.append([])
        runs[-1].append(index)
        end = max(end, last)
    if without:
        runs.insert(0, without)
    return [[places[index] for index in sorted(run)] for run in runs]


def _times(place: Place) -> tuple[float, float] | None:
    """Return when the program of a dump and its step began; None when its header does not say so."""
    for path in (place.document.with_name(JOURNAL), place.document):
        try:
            with path.open("rb") as file:
                match = _TIMES.search(file.read(_HEAD_BYTES))
        except OSError:
            continue
        return (float(match[1]), float(match[2])) if match else None
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
    times = _times(places[0])
    if times is not None:
        parts.append(time.strftime("begun %Y-%m-%d %H:%M:%S", time.localtime(times[0])))
    return " ".join(parts) or "1 dump"
