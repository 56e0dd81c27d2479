"""The tensor files of one run of a graph, and the ones that are new since one looked last."""

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
"""How much older than its newest file a folder may look."""


def files_of(run: Iteration) -> Iterator[KernelFile]:
    """The tensor files of ``run``; others are named in a warning, once for each folder."""
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


class Newcomers:
    """Finds what a runtime has written since the last look.

    Args:
        since: leave out what is older than this time (us since 1970), such as the files of an earlier run.
    """

    def __init__(self, since: int = -1) -> None:
        self._newest = since
        self._looked = 0.0

    def look(self, native: NativeFolder) -> list[Iteration]:
        """The runs with new files or rows, which are the ones inside their times."""
        fresh: list[Iteration] = []
        newest, looked = self._newest, self._looked
        for run in native.iterations():
            changed = _changed(run.folder)
            if changed < self._looked - _SLACK_SECONDS:
                continue
            looked = max(looked, changed)
            last = max(_times(replace(run, after=self._newest)), default=-1)
            if last >= 0:
                fresh.append(replace(run, after=self._newest))
                newest = max(newest, last)
        self._newest, self._looked = newest, looked
        return [replace(run, until=newest) for run in fresh]


def _times(run: Iteration) -> Iterator[int]:
    for file in files_of(run):
        yield file.time
    table = run.folder / STATISTIC
    if table.is_file():
        for row in read_statistics(table):
            if run.holds(row.time):
                yield row.time


def _changed(folder: Path) -> float:
    """When something in ``folder`` changed last, in seconds."""
    times = [os.stat(folder).st_mtime]
    with contextlib.suppress(OSError):
        times.append(os.stat(folder / STATISTIC).st_mtime)
    return max(times)
