"""``msprobe overflow_check``: the call that made the first NaN or infinity, over all ranks of a step.

result = check_overflow(Path("dump/step0"))
for line in result.lines:
    print(line)
result.document()       # {"rank_2": [{"op_name": "Torch.div.1.forward", "data_info": {...}, ...}]}
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from msprobe.analyze.communication import Exchange, exchanges
from msprobe.analyze.rank_order import Event, Standing, order_events
from msprobe.compare.inputs.locations import PathLike, opened
from msprobe.compare.records.call_source import call_source
from msprobe.compare.records.entries import parents_of
from msprobe.compare.records.run_end import end_text, ended_early
from msprobe.compare.records.source_lines import excerpt
from msprobe.core.dump.tasks.nonfinite_source import Source, find_source, has_statistics
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.host import paused_gc
from msprobe.core.store.process_folders import rank_numbers
from msprobe.core.store.reader import Dump, Place, damage_named, find_dumps, load_dump
from msprobe.core.store.safe_files import make_folder, write_atomic

_NO_CALL = (
    "No call made NaN or infinity. Task {} records those calls alone: what comes in with the data is in the log of the "
    "training, and this command names it in a dump of task statistics."
)


@dataclass(slots=True)
class Overflow:
    """The first NaN or infinity of each rank.

    Args:
        step: the step; None where the dump has no step folders.
        standings: the ranks that have any, earliest first.
        sources: the first call with non-finite values, by rank.
        records: the document about that call, by rank.
        stacks: the frames of that call, by rank.
        notes: sentences about dumps that are not complete.
        empty: documents without records, of tasks that record more than findings.
        of_findings: the task of a document without records that is a good result; "" where there is none.
    """

    step: int | None = None
    standings: list[Standing] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    stacks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    of_findings: str = ""

    @property
    def found(self) -> bool:
        """Return whether any rank has a NaN or an infinity."""
        return bool(self.standings)

    def document(self) -> dict[str, list[dict[str, Any]]]:
        """Return the result document: the earliest call, under its rank; empty where all values are finite."""
        if not self.standings:
            return {}
        rank = self.standings[0].rank
        return {f"rank_{rank}": [self.records[rank]]}

    @property
    def lines(self) -> Iterator[str]:
        """Yield the result in words: the earliest call, then calls of other ranks that do not follow from it."""
        if not self.standings:
            yield _NO_CALL.format(self.of_findings) if self.of_findings else "No NaN or infinity was found."
        for number, standing in enumerate(self.standings):
            source = self.sources[standing.rank]
            where = f"rank {standing.rank}" + ("" if self.step is None else f", step {self.step}")
            if number == 0:
                yield f"First NaN or infinity ({where}): {source.name}"
                yield from self._place_lines(standing.rank)
                yield f"  reason: {source.reason}"
            elif standing.first:
                yield f"Independent of it ({where}): {source.name}: {source.reason}"
                yield from self._place_lines(standing.rank)
        yield from self.notes

    def _place_lines(self, rank: int) -> Iterator[str]:
        """Yield source line and module of the call of a rank."""
        record = self.records[rank]
        if record["source"]:
            yield f"  source: {record['source']}"
            yield from (f"    {line}" for line in excerpt(self.stacks[rank]))
        if record["module"]:
            yield f"  module: {record['module']}"


def check_overflow(path: PathLike, run: str | None = None) -> Overflow:
    """Return the first NaN or infinity of a dump; of several steps, of the first step that has any.

    Args:
        path: path or URL of a step folder, a process folder or a dump root.
        run: the run of a folder that holds several, by number; None for the newest.

    Raises:
        ReadError: there is no dump, or one is damaged.
        NotComparableError: the dumps hold no statistics, or no records at all.
    """
    result, empty = Overflow(), list[Path]()
    places = find_dumps(opened(path), run)
    with paused_gc():
        for step, of_step in groupby(places, key=lambda place: place.step):
            result = _check_step(step, list(of_step))
            empty += result.empty
            if result.found:
                break
    if len(empty) == len(places):
        raise NotComparableError(
            f"{empty[0]} holds no records (its data is empty), so nothing was checked; "
            "msprobe doctor config.json -i FOLDER says why it is empty"
        )
    result.notes += [f"{document} holds no records: nothing of it was checked" for document in empty]
    return result


def _check_step(step: int | None, places: list[Place]) -> Overflow:
    result = Overflow(step)
    programs: dict[int, list[Exchange]] = {}
    events: dict[int, Event] = {}
    for rank, place in zip(rank_numbers((place.kind, place.number) for place in places), places, strict=True):
        dump = load_dump(place)
        if dump.data and not has_statistics(dump.data):
            raise NotComparableError(
                f"{place.document} holds no Max and Min (task {dump.task}, or a summary_mode without them), so it "
                "cannot be told whether values are finite; collect with summary_mode statistics or md5"
            )
        programs[rank] = exchanges(rank, ((index, name, body) for index, (name, body) in enumerate(dump.data.items())))
        with damage_named(place):
            source = find_source(dump.data)
        if source is not None:
            result.sources[rank] = source
            # What entered was there before the communication of the entry.
            events[rank] = Event(source.entry, after=source.made)
            result.records[rank] = record_of(dump, source)
            result.stacks[rank] = call_source(dump, source.name).stack
        if not dump.data and _records_findings_only(dump.task):
            result.of_findings = dump.task
        elif not dump.data:
            result.empty.append(place.document)
        if ended_early(dump, dump):
            result.notes.append(end_text(dump, str(place.document.parent)))
    result.standings = order_events(programs, events)
    return result


def _records_findings_only(task: str) -> bool:
    """Return whether an empty dump of a task is a good result."""
    from msprobe.core.config import TASKS  # for empty dumps only

    return task in TASKS and TASKS[task].only_findings


def record_of(dump: Dump, source: Source) -> dict[str, Any]:
    """Return the document about one call: its values, the modules around it from the root on, and its call stack."""
    body = dump.data[source.name]
    sections = ["input", "output"] if "input" in body else ["input_args", "input_kwargs", "output"]
    if source.slot.startswith("parameters"):
        sections.append("parameters")
    has_sections = any(key in body for key in sections)
    forward, made = source.name.replace(".backward", ".forward"), call_source(dump, source.name)
    return {
        "op_name": source.name,
        "data_info": {key: body[key] for key in sections if key in body} if has_sections else body,
        "construct_info": _enclosing(dump, source.name),
        "stack_info": dump.stacks.get(forward) or {},
        "reason": source.reason,
        "module": made.module,
        "source": made.source,
    }


def _enclosing(dump: Dump, name: str) -> list[str]:
    """Return the names of the modules around a call from the root on, and its own name."""
    return [name, *parents_of(dump.construct, name)][::-1]


def write_document(document: dict[str, Any], folder: Path, stem: str) -> Path:
    """Write a result document as ``stem_{nanoseconds}.json`` and return its path.

    Raises:
        MsprobeException: the folder cannot be written.
    """
    path = folder / f"{stem}_{time.time_ns()}.json"
    try:
        make_folder(folder)
        write_atomic(path, [to_json(document, indent=2, inf_nan_mode="constants"), b"\n"])
    except OSError as error:
        reason = f"the result cannot be written to {folder} ({error.strerror}); choose another folder with -o"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    return path
