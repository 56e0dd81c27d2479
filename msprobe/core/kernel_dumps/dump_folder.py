"""Read the folder of one process in a kernel dump.

    rank_0/{net}/{graph}/{iteration}/*.npy or statistic.csv
    rank_0/graphs/ms_output_trace_code_graph_{graph}.ir
    rank_0/execution_order/ms_execution_order_graph_{graph}.csv
    rank_0/.dump_metadata/                                       exists as soon as the runtime has read its request

``NativeFolder`` returns the graphs and their runs, ``files_of`` the tensor files of one run, and ``NewFiles`` the runs
that are new since the last poll.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.interruption import ignored
from msprobe.core.kernel_dumps.graph_ir import Ir, read_ir, with_forward_lines
from msprobe.core.kernel_dumps.kernel_names import KernelFile, parse_file, read_mapping
from msprobe.core.kernel_dumps.kernel_statistics import read_statistics
from msprobe.core.log import first_time, logger

STATISTIC = "statistic.csv"
_RANK = re.compile(r"rank_(\d+)\Z")
_IR = re.compile(r"graph_(\d+)\.ir\Z")
_NO_NET = frozenset({"graphs", "execution_order", ".dump_metadata", "debug_files"})

_GIVE = "give the dump_path of a level L2 run of MindSpore, or one rank_N of it"
_FOREVER = 1 << 62

_SLACK_SECONDS = 2.0
"""A folder may look this much older than its newest file."""


def find_ranks(path: Path) -> list[NativeFolder]:
    """Return the processes of the kernel dump at ``path``, which is the folder of a dump or one ``rank_{N}`` of it.

    Raises:
        ReadError: there is none.
    """
    if not path.is_dir():
        raise ReadError(f"{path}: no such folder; {_GIVE}")
    if _RANK.match(path.resolve().name):
        return [NativeFolder(path.resolve())]
    ranks = [NativeFolder(child) for child in _folders(path) if _RANK.match(child.name)]
    if not ranks:
        found = ", ".join(sorted(child.name for child in path.iterdir())[:5]) or "nothing"
        raise ReadError(f"{path}: no kernel dump, it has no folder rank_0, rank_1, ... (found: {found}); {_GIVE}")
    return sorted(ranks, key=lambda folder: folder.rank)


class NativeFolder:
    """The folder ``rank_{N}`` of a kernel dump. Graphs are read once, when they are first used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        match = _RANK.match(folder.name)
        self.rank = int(match[1]) if match else 0

    @property
    def accepted(self) -> bool:
        """Whether the runtime has read its request."""
        return (self.folder / ".dump_metadata").is_dir()

    def iterations(self) -> list[Iteration]:
        """Return every run of every graph, ordered by iteration and graph."""
        runs = [
            Iteration(run, graph.name, int(run.name))
            for net in _folders(self.folder)
            if net.name not in _NO_NET
            for graph in _folders(net)
            for run in _folders(graph)
            if run.name.isdigit()
        ]
        return sorted(runs, key=lambda run: (run.number, len(run.graph), run.graph))

    @cached_property
    def graphs(self) -> dict[str, Ir]:
        """The printed graphs by number. A graph that cannot be read is left out with a warning."""
        read: dict[str, Ir] = {}
        for path in sorted((self.folder / "graphs").glob("*.ir")):
            number = _IR.search(path.name)
            if number is None:
                continue
            try:
                read[number[1]] = read_ir(path)
            except ReadError as error:
                logger.warning("%s: its kernels have no source lines", error.error_info)
        return dict(zip(read, with_forward_lines(read.values()), strict=True))

    def order(self, graph: str) -> list[str]:
        """Return the full names of the kernels of ``graph`` in execution order; [] when that was not written."""
        path = self.folder / "execution_order" / f"ms_execution_order_graph_{graph}.csv"
        if not path.is_file():
            return [node.name for node in self.graphs[graph].nodes] if graph in self.graphs else []
        return [line.strip() for line in path.read_text("utf-8", "replace").splitlines()[1:] if line.strip()]


def _folders(path: Path) -> Iterator[Path]:
    return (child for child in sorted(path.iterdir()) if child.is_dir()) if path.is_dir() else iter(())


@dataclass(frozen=True, slots=True)
class Iteration:
    """One run of one graph: the files of ``folder`` with a time after ``after`` and up to ``until`` (microseconds).

    The runtime's numbers are not unique: two runs may share a folder, and only the time distinguishes them.
    """

    folder: Path
    graph: str
    number: int
    after: int = -1
    until: int = _FOREVER

    def holds(self, time: int) -> bool:
        """Return whether a file or row of this time (microseconds since 1970) belongs to the run."""
        return self.after < time <= self.until


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
    with ignored(OSError):
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
    with ignored(OSError):
        times.append(os.stat(folder / STATISTIC).st_mtime)
    return max(times)
