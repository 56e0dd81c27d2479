"""``csv2tensorboard_by_step``: event files for TensorBoard from csv files of the first version, documented or appended.

Needs the package ``tensorboard``, which the extra ``tensorboard`` brings.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from msprobe.core.distribution import install_command
from msprobe.core.errors import MsprobeException, ReadError, argument_text
from msprobe.core.log import logger
from msprobe.core.store.safe_files import make_folder
from msprobe.monitor.sources import SOURCES
from msprobe.monitor.trainer_mon import runs_between
from msprobe.trend.monitor_files import MonitorFile, files_of
from msprobe.trend.monitor_rows import CsvRows

_TYPES: Final = tuple(source.name for source in SOURCES)

Task = tuple[list[MonitorFile], Path]
"""The csv files of one source and rank, and the folder of their events."""


def csv2tensorboard_by_step(
    monitor_path: str | os.PathLike[str],
    time_start: str | None = None,
    time_end: str | None = None,
    process_num: int = 1,
    data_type_list: Sequence[str] | None = None,
    output_dirpath: str | os.PathLike[str] | None = None,
) -> None:
    """Write events of the csv files of a monitor: ``rank{r}/{source}/events.out.tfevents.*``.

    Args:
        monitor_path: the output folder of the monitor, which holds the folders of runs.
        time_start, time_end: time tags such as ``Dec03_21-34-40``; None leaves the range open.
        process_num: how many processes work.
        data_type_list: the sources (``actv``, ``grad_reduced``); None for all.
        output_dirpath: where ``rank{r}`` folders go; default: ``{time}-csv2tensorboard_by_step`` here.

    Raises:
        MsprobeException: an argument is wrong, or tensorboard is not installed.
        ReadError: there is no run, or a file cannot be understood.
    """
    number: object = process_num
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise MsprobeException(
            0, f"csv2tensorboard_by_step: process_num is from 1 on, got {argument_text(process_num)}"
        )
    types = _TYPES if data_type_list is None else data_type_list
    unknown = [name for name in types if name not in _TYPES]
    if unknown:
        raise MsprobeException(
            0, f"csv2tensorboard_by_step: data_type_list: {argument_text(unknown[0])}; there are {', '.join(_TYPES)}"
        )
    _tensorboard()
    try:
        runs = runs_between(Path(monitor_path), time_start, time_end)
    except ValueError as error:
        raise MsprobeException(0, f"csv2tensorboard_by_step: {error}; write Dec03_21-34-40") from error
    if not runs:
        raise ReadError(f"{monitor_path}: there is no run of a monitor (Dec03_21-34-40-rank0-1a2b3c4d) in that time")
    named = f"{time.strftime('%b%d_%H-%M-%S')}-csv2tensorboard_by_step"
    output = Path(output_dirpath) if output_dirpath is not None else Path(named)
    tasks = list(_tasks(runs, frozenset(types), output))
    if process_num == 1 or len(tasks) < 2:
        for task in tasks:
            write_events(task)
    else:
        with ProcessPoolExecutor(min(process_num, len(tasks)), get_context("spawn")) as pool:
            list(pool.map(write_events, tasks))
    logger.info("csv2tensorboard_by_step: %d folders of events are in %s", len(tasks), output.absolute())


def _tasks(runs: Iterable[tuple[Path, str, int]], types: frozenset[str], output: Path) -> Iterator[Task]:
    found: dict[Path, list[MonitorFile]] = {}
    for folder, _, rank in runs:
        for file in files_of(folder, rank):
            if file.metric in types:
                found.setdefault(output / f"rank{rank}" / file.metric, []).append(file)
    for target, files in found.items():
        yield sorted(files, key=lambda file: file.first), target


def write_events(task: Task) -> None:
    """Write the events of one source of one rank.

    Raises:
        ReadError: a file cannot be understood.
    """
    files, folder = task
    writer_of, event_of = _tensorboard()
    make_folder(folder)
    writer = writer_of(str(folder))
    try:
        for file in files:
            for tag, step, value in _values(file):
                writer.add_event(event_of(tag, step, value))
    finally:
        writer.close()


def _values(file: MonitorFile) -> Iterator[tuple[str, int, float]]:
    """Yield tag, step and value of each number; a tensor that was not there has none."""
    rows = CsvRows(file)
    divided = "micro_step" in rows.titles
    for point, _ in rows.tensors():
        name, stage, micro = point.target
        place = f"vp{stage}:{name}" + (f":micro{micro}" if divided else "")
        yield from ((f"{place}/{key}", point.step, value) for key, value in point.values.items() if value is not None)


def _tensorboard() -> tuple[Any, Any]:
    """Return what makes a writer for a folder, and what makes an event.

    Raises:
        MsprobeException: the package is not installed.
    """
    try:
        writers = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        summary = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
    except ImportError as error:
        text = f"needs tensorboard ({error}): {install_command('tensorboard')}"
        raise MsprobeException(3, f"csv2tensorboard_by_step {text}") from error

    def event_of(tag: str, step: int, value: float) -> Any:
        content = summary(value=[summary.Value(tag=tag, simple_value=value)])
        return event(wall_time=time.time(), step=step, summary=content)

    return writers.EventFileWriter, event_of
