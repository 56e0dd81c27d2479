"""The whole job of ``msprobe data2db``: every step and rank of a dump root into one trend database.

Steps are written in the order of their numbers. The steps of the database are those of the optimizer, those of the
dump, or micro steps, which count on from one training step to the next; a step has as many as the rank with the most.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from msprobe.compare.inputs.locations import PathLike, local, opened
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.store.layout import DEBUG
from msprobe.core.store.reader import Place, damage_named, find_dumps, load_dump, read_json_object
from msprobe.trend.database import TrendDatabase
from msprobe.trend.optimizer_steps import accumulated
from msprobe.trend.rows import Row, TrendRows, trend_rows

DATABASE = "dump_data.trend.db"
WORK = "msprobe.trend.job:rows_text"

Run = Callable[[str, Sequence[str]], Iterator[tuple[int, str]]]
"""Runs a named function (``module:function``, text to text) elsewhere, and yields (number of the text, result)."""
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Trend:
    """A summary of what was written.

    Attributes:
        path: the database.
        ranks: how many ranks it has.
        steps: how many steps it has.
        rows: how many rows it has.
        repeated: how many values were left out because their name was taken.
        outside: how many calls belong to no micro step.
        unlike_roots: whether different modules begin micro steps.
        notes: sentences for the user about values that are not in the database.
    """

    path: Path
    ranks: int = 0
    steps: int = 0
    rows: int = 0
    repeated: int = 0
    outside: int = 0
    unlike_roots: bool = False
    notes: list[str] = field(default_factory=list)

    def add(self, rows: TrendRows, repeated: int) -> None:
        """Count the rows of one dump."""
        self.rows += len(rows.rows) - repeated
        self.repeated += repeated
        self.outside += rows.outside
        self.unlike_roots |= rows.unlike_roots

    def conclude(self) -> None:
        """Add notes about what is not in the database, and why."""
        if self.unlike_roots:
            self.notes.append(
                "different modules begin micro steps: the module above them is not in the dump, so each of them counts "
                "as a micro step of its own; --micro_step false keeps the steps of the dump"
            )
        if self.outside:
            self.notes.append(
                f"{self.outside} calls are outside of the modules that begin micro steps and left out; "
                "--micro_step false keeps them"
            )
        if self.repeated:
            self.notes.append(f"{self.repeated} values have the name of an earlier one and are left out")


@dataclass(frozen=True, slots=True)
class Execution:
    """Where dumps are read, and what shows the progress.

    Attributes:
        run: a function that reads the dumps in other processes; None for this process.
        progress: a function that is called with the number of finished dumps and the number of dumps.
    """

    run: Run | None = None
    progress: Progress | None = None


_HERE = Execution()


def write_trend(
    data: PathLike,
    folder: PathLike,
    mapping: PathLike | None = None,
    *,
    divided: bool | None = None,
    run: str | None = None,
    execution: Execution = _HERE,
) -> Trend:
    """Write ``dump_data.trend.db`` into ``folder`` (created when missing); an existing file is replaced.

    Args:
        data: a dump root, or a step or process folder of it.
        folder: a folder of this machine.
        mapping: a JSON file ``{"text": "replacement"}`` for the names of calls.
        divided: whether steps are divided into micro steps; if not, a step is a step of the dump. None counts steps of
            the optimizer.
        run: the run of a folder that holds several, by number; None for the newest.
        execution: where dumps are read, and what shows the progress.

    Raises:
        ReadError: a dump or the mapping cannot be read; nothing is written.
        NotComparableError: no dump holds statistics of a tensor that gets a row.
        MsprobeException: the database cannot be written.
    """
    replacements = {} if mapping is None else read_mapping(opened(mapping))
    places = sort_dumps(find_dumps(opened(data), run))
    trend = Trend(local(folder) / DATABASE)
    texts = [json.dumps([str(place.document), replacements, divided]) for _, _, place in places]
    rows = (
        _in_order(execution.run(WORK, texts))
        if execution.run
        else map(_rows, ((place, replacements, divided) for *_, place in places))
    )
    with TrendDatabase(trend.path) as database:
        numbers = _Numbers(
            divided, accumulated((step, place) for step, _, place in places) if divided is None else None
        )
        _write(database, trend, zip(places, rows, strict=True), (len(places), numbers, execution.progress))
        if not trend.rows:
            raise NotComparableError(
                f"{data}: no statistics of float16, bfloat16 or float32 tensors to follow; collect with task "
                "statistics or tensor (not structure, not summary_mode xor) at level L0, L1 or mix"
            )
    trend.conclude()
    return trend


@dataclass(slots=True)
class _Numbers:
    """The numbers of steps in the database.

    ``divided`` is the option; ``accumulated`` are the steps of a run that accumulates gradients over steps of the dump,
    whose calls are counted on within such a step (``calls``, by step and rank).
    """

    divided: bool | None
    accumulated: dict[int, int] | None = None
    calls: dict[tuple[int, int], int] = field(default_factory=dict)

    def begin(self, step: int, first: int) -> int:
        """Return the first step in the database of a step of the dump; ``first`` is the first free one."""
        if self.accumulated is not None:
            return self.accumulated[step]
        if self.divided:
            return first
        return max(step, first) if self.divided is None else step

    def calls_counted_on(self, begin: int, rank: int, rows: list[Row]) -> list[Row]:
        """Return the rows of a dump with call numbers that go on behind those of an earlier dump of the same step."""
        if self.accumulated is None:
            return rows
        before = self.calls.get((begin, rank), 0)
        self.calls[begin, rank] = before + max((row[3] for row in rows), default=-1) + 1
        return [(*row[:3], row[3] + before, row[4]) for row in rows]


def _write(
    database: TrendDatabase,
    trend: Trend,
    rows_of_dumps: Iterable[tuple[tuple[int, int, Place], TrendRows]],
    options: tuple[int, _Numbers, Progress | None],
) -> None:
    """Write the rows of all dumps; ``options`` are the number of dumps, ``numbers`` and ``progress``."""
    dumps, numbers, progress = options
    ranks, steps = set[int](), set[int]()
    done = first = 0
    for step, group in groupby(rows_of_dumps, key=lambda item: item[0][0]):
        begin, longest = numbers.begin(step, first), 0
        for (_, rank, _), rows in group:
            trend.add(rows, database.write(rank, begin, numbers.calls_counted_on(begin, rank, rows.rows)))
            longest = max(longest, rows.micro_steps)
            ranks.add(rank)
            done += 1
            if progress is not None:
                progress(done, dumps)
        first = begin + longest
        steps.update(range(begin, first) if numbers.divided is not False else [begin])
    trend.ranks, trend.steps = len(ranks), len(steps)


def sort_dumps(places: Sequence[Place]) -> list[tuple[int, int, Place]]:
    """Return step, rank and folder of each dump, sorted by step and rank.

    Processes without a rank get the numbers after the largest rank of their step.

    Raises:
        ReadError: a folder holds no record of calls, or programs of two modes stand side by side.
    """
    result: list[tuple[int, int, Place]] = []
    for step, group in groupby(places, key=lambda place: place.step or 0):
        in_step = list(group)
        for place in in_step:
            _check(place)
        ranks = [place for place in in_step if place.kind == "rank" and place.number is not None]
        others = [place for place in in_step if place not in ranks]
        behind = max((place.number or 0 for place in ranks), default=-1) + 1
        result += [(step, place.number or 0, place) for place in ranks]
        result += [(step, behind + number, place) for number, place in enumerate(others)]
    return sorted(result, key=lambda item: item[:2])


def _check(place: Place) -> None:
    if place.document.name == DEBUG:
        raise ReadError(f"{place.document}: single saved values have no trend; give a dump of levels L0, L1 or mix")
    if place.mode:
        raise ReadError(f"{place.document}: one of several programs of a run; give the folder {place.mode} alone")


def _rows(task: tuple[Place, Mapping[str, str], bool | None]) -> TrendRows:
    place, replacements, divided = task
    with damage_named(place):
        return trend_rows(load_dump(place), replacements, divided=divided)


def rows_text(text: str) -> str:
    """Return the rows of a dump as JSON, for another process: ``text`` is JSON of [document, replacements, divided]."""
    document, replacements, divided = json.loads(text)
    rows = _rows((Place(opened(document)), replacements, divided))
    return json.dumps([rows.rows, rows.micro_steps, rows.outside, rows.unlike_roots])


def _in_order(results: Iterator[tuple[int, str]]) -> Iterator[TrendRows]:
    """Yield the results by their number, in whatever order they arrive."""
    waiting: dict[int, str] = {}
    following = 0
    for number, text in results:
        waiting[number] = text
        while following in waiting:
            yield TrendRows(*json.loads(waiting.pop(following)))
            following += 1


def read_mapping(path: Path) -> dict[str, str]:
    """Return the replacements of a mapping file.

    Raises:
        ReadError: the file cannot be read or is not a JSON object of texts.
    """
    content = read_json_object(path, '{"old text": "new text"}', "correct --mapping")
    wrong = [key for key, value in content.items() if not key or not isinstance(value, str)]
    if wrong:
        raise ReadError(f"{path}: key {wrong[0]!r}: both sides are texts, the left one not empty; correct --mapping")
    return content
