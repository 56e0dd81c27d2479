"""TensorBoard event files: a scalar for each tensor and statistic, ``{source}/{name}/{statistic}``.

Needs the package tensorboard (extra ``tensorboard``), whose writer makes the files; no framework is involved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.core.store.safe_files import make_folder
from msprobe.monitor.rows import Row

NO_NUMBERS: Final = frozenset({"id", "shape", "dtype"})


class EventFiles:
    """Writes rows as TensorBoard reads them (implements ``RowSink``).

    Args:
        folder: made with the first row.

    Raises:
        ImportError: tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary, self._make = Event, Summary, EventFileWriter
        self._folder = folder
        self._writer: Any = None

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """Write one event with the scalars of a step, and hand it to the system.

        Raises:
            OSError: the file cannot be written.
        """
        if self._writer is None:
            make_folder(self._folder)
            self._writer = self._make(str(self._folder))
        summary = self._summary()
        for tag, value in (pair for row in rows for pair in _scalars(row)):
            summary.value.add(tag=tag, simple_value=value)
        if summary.value:
            import time

            self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))
            self._writer.flush()

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _scalars(row: Row) -> Iterator[tuple[str, float]]:
    stage = f"stage{row.stage}/" if row.stage else ""
    micro = f"/micro{row.micro_step}" if row.micro_step else ""
    for name, value in zip(row.statistics, row.values, strict=True):
        if name not in NO_NUMBERS and value is not None:
            yield f"{row.source.name}/{stage}{row.label}{micro}/{name}", float(value)
