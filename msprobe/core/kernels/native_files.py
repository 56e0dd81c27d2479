"""Find the tensor files of one run of a graph, and those that are new since the last time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msprobe.core.kernels.file_names import KernelFile, parse_file, read_mapping
from msprobe.core.kernels.native_folder import STATISTIC, Iteration, NativeFolder
from msprobe.core.kernels.statistic_csv import read_statistics
from msprobe.core.log import first_time, logger

_SLACK_SECONDS = 2.0
"""A folder may look this much older than its newest file."""


def files_of(run: Iteration) -> Iterator[KernelFile]:
    """Yield the tensor files of ``run``; warn of other files, once for each folder."""
    mapping = read_mapping(run.folder)
    skipped: list[str] = []
    for path in sorted(run.folder.iterdir()):
        file = parse_file(path, mapping)
        if file is not None:
            if run.holds(file.time):
                yield file
        elif path.is_file() and path.name not in ("mapping.csv", STATISTIC):
            skipped.append(path.name)
    if skipped and first_time(("no-npy", run.folder)):
        logger.warning(
            "%s: %d files are no .npy of a kernel and are left out (%s); .bin files must be converted to .npy first",
            run.folder,
            len(skipped),
            skipped[0],
        )


def remove_files(run: Iteration) -> None:
    """Remove the tensor files of ``run``, and its folder when nothing else is in it."""
    for file in files_of(run):
        file.path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        run.folder.rmdir()


class NewFiles:
    """Finds what a runtime has written since the last poll.

    Args:
        since: ignore what is older than this time (microseconds since 1970), such as the files of an earlier run.
    """

    def __init__(self, since: int = -1) -> None:
        self._newest = since
        self._latest_change = 0.0

    def poll(self, native: NativeFolder) -> list[Iteration]:
        """Return the runs with new files or rows; each result covers exactly the times of what is new."""
        fresh: list[Iteration] = []
        newest, latest_change = self._newest, self._latest_change
        for run in native.iterations():
            changed = _change_time(run.folder)
            if changed < self._latest_change - _SLACK_SECONDS:
                continue
            latest_change = max(latest_change, changed)
            last = max(_file_times(replace(run, after=self._newest)), default=-1)
            if last >= 0:
                fresh.append(replace(run, after=self._newest))
                newest = max(newest, last)
        self._newest, self._latest_change = newest, latest_change
        return [replace(run, until=newest) for run in fresh]


def _file_times(run: Iteration) -> Iterator[int]:
    """Yield the time of each file and row of ``run``, in microseconds."""
    for file in files_of(run):
        yield file.time
    table = run.folder / STATISTIC
    if table.is_file():
        for row in read_statistics(table):
            if run.holds(row.time):
                yield row.time


def _change_time(folder: Path) -> float:
    """Return when something in ``folder`` changed last, in seconds since 1970."""
    times = [os.stat(folder).st_mtime]
    with contextlib.suppress(OSError):
        times.append(os.stat(folder / STATISTIC).st_mtime)
    return max(times)
