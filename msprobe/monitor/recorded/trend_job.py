"""The whole job of ``msprobe data2db --format monitor``: files of monitors into one trend database, again and again.

Each call reads what the files have got since the last one. Steps are those of the training, and ``micro_step`` is a
column of the targets; divided into micro steps, a step has as many numbers as the training has micro steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.core.errors import NotComparableError, ReadError
from msprobe.monitor.recorded.alerts import find_alerts, read_alerts
from msprobe.monitor.recorded.rank_databases import RankDatabase, find_rank_databases
from msprobe.trend.growing import GrowingDatabase, Mark, Point
from msprobe.trend.monitor_files import MonitorFile, find_files
from msprobe.trend.monitor_rows import CsvRows

DATABASE = "monitor_data.trend.db"
_KIND = "kind"
_MICRO_STEPS = "micro_steps"
_RESOLUTION = "resolution"
_DIVIDED = "divided"
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class MonitorTrend:
    """A summary of what was written.

    Attributes:
        path: the database.
        added: how many rows this call added.
        ranks, steps, rows: how many the database has.
        notes: sentences for the user.
    """

    path: Path
    added: int = 0
    ranks: int = 0
    steps: int = 0
    rows: int = 0
    notes: list[str] = field(default_factory=list)


def write_monitor_trend(
    data: Path,
    folder: Path,
    mapping: Mapping[str, str] | None = None,
    *,
    divided: bool = False,
    progress: Progress | None = None,
) -> MonitorTrend:
    """Write ``monitor_data.trend.db`` into ``folder``, or add to it what is new.

    Args:
        data: the output folder of monitors, or the folder of one rank.
        folder: made when it is missing.
        mapping: texts to replace in names of targets.
        divided: whether each micro step is a step of the database.
        progress: is called with the number of files that were read and the number of files.

    Raises:
        ReadError: there is no such folder, or a file cannot be read; what was read before it stays.
        NotComparableError: the folder has no files of a monitor, or they have no numbers.
        MsprobeException: the database cannot be written.
    """
    if not data.is_dir():
        raise ReadError(f"{data}: no such folder; give the output folder of a monitor")
    files, databases = find_files(data), find_rank_databases(data)
    if not files and not databases:
        raise NotComparableError(
            f"{data}: no files of a monitor, such as rank_0/module_step0-0.csv, here or up to three levels below"
        )
    trend = MonitorTrend(folder / DATABASE)
    readers: list[CsvRows | RankDatabase] = [reader for reader in map(CsvRows, files) if reader.complete]
    readers += databases
    micro_steps = max((reader.micro_steps() for reader in readers), default=1) if divided else 1
    micro_steps = _micro_steps_in(trend.path, divided, micro_steps)
    rounded = any(file.metric for file in files)  # the first version keeps six digits behind the point
    job = _Job(trend, mapping or {}, micro_steps if divided else 0, "1e-06" if rounded else "0")
    with GrowingDatabase(trend.path) as database:
        for number, reader in enumerate(readers, 1):
            job.read(database, reader)
            if progress is not None:
                progress(number, len(readers))
        database.settle()
        job.read_alerts(database, find_alerts(data))
        trend.rows, trend.steps, trend.ranks = database.count()
    if not trend.rows:
        raise NotComparableError(f"{data}: the files of the monitor have no rows yet")
    trend.notes += _notes(files)
    return trend


def has_monitor_files(folder: Path) -> bool:
    """Return whether a monitor wrote into a folder."""
    return folder.is_dir() and bool(find_files(folder) or find_rank_databases(folder))


def _micro_steps_in(path: Path, divided: bool, micro_steps: int) -> int:
    """Return how many micro steps a step has; a database whose steps are numbered otherwise is removed."""
    if not path.exists():
        return micro_steps
    with GrowingDatabase(path) as database:
        if database.info(_KIND) not in {None, "monitor"}:
            raise ReadError(f"{path} holds something else; choose another folder with -o")
        kept = database.info(_DIVIDED), int(database.info(_MICRO_STEPS) or 1)
    if kept[0] is not None and (kept[0] != str(divided) or kept[1] < micro_steps):
        path.unlink()
        return micro_steps
    return max(kept[1], micro_steps)


def _notes(files: list[MonitorFile]) -> list[str]:
    runs: dict[int, set[Path]] = {}
    for file in files:
        runs.setdefault(file.rank, set()).add(file.run)
    twice = sorted(rank for rank, folders in runs.items() if len(folders) > 1)
    if not twice:
        return []
    return [
        f"rank {twice[0]} has {len(runs[twice[0]])} folders of runs: where they have the same steps, the newest "
        "counts; give one run by its folder, or remove the others"
    ]


@dataclass(slots=True)
class _Job:
    """Reads files into a database; ``micro_steps`` is how many numbers a step has, 0 where steps are not divided."""

    trend: MonitorTrend
    mapping: Mapping[str, str]
    micro_steps: int
    resolution: str

    def read(self, database: GrowingDatabase, reader: CsvRows | RankDatabase) -> None:
        """Add what a file has got since it was last read."""
        path, rank = (reader.path, reader.rank) if isinstance(reader, RankDatabase) else reader.place
        name = str(path.absolute())
        begin = database.read_until(name)
        if isinstance(reader, CsvRows):
            size = path.stat().st_size
            if begin == size:
                return
            begin = begin if begin < size else 0
        statistics = reader.statistics()
        for batch in reader.batches(begin):
            points = [self._placed(point) for point in batch.points]
            with database.transaction():
                metrics = dict.fromkeys(point.metric for point in points)
                database.prepare(statistics, list(metrics))
                if database.info(_KIND) is None:
                    self._keep(database)
                database.add(rank, points)
                database.set_read(name, batch.read)
            self.trend.added += len(points)
        if isinstance(reader, RankDatabase):
            with database.transaction():
                database.mark(rank, [self._mark_placed(mark) for mark in reader.marks()])

    def _keep(self, database: GrowingDatabase) -> None:
        database.keep(_KIND, "monitor")
        database.keep(_DIVIDED, str(self.micro_steps > 0))
        database.keep(_MICRO_STEPS, str(max(self.micro_steps, 1)))
        database.keep(_RESOLUTION, self.resolution)

    def read_alerts(self, database: GrowingDatabase, files: list[tuple[int, Path]]) -> None:
        for rank, path in files:
            marks = [self._mark_placed(mark) for mark in read_alerts(path)]
            with database.transaction():
                database.mark(rank, marks)

    def _placed(self, point: Point) -> Point:
        step, target = self._place(point.step, point.target)
        return point._replace(step=step, target=target)

    def _mark_placed(self, mark: Mark) -> Mark:
        step, target = self._place(mark.step, mark.target)
        return mark._replace(step=step, target=target)

    def _place(self, step: int, target: tuple[str, int, int]) -> tuple[int, tuple[str, int, int]]:
        name, stage, micro = target
        for old, new in self.mapping.items():
            name = name.replace(old, new)
        if not self.micro_steps:
            return step, (name, stage, micro)
        return step * self.micro_steps + micro, (name, stage, 0)
