"""A sink that keeps the rows of a monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msprobe.monitor.rows import Row
from msprobe.monitor.sources import Source


class Kept:
    """Keeps the rows of each step (implements ``RowSink``)."""

    def __init__(self) -> None:
        self.steps: dict[int, list[Row]] = {}
        self.closed = 0

    def write(self, step: int, rows: Sequence[Row]) -> None:
        self.steps[step] = list(rows)

    def close(self) -> None:
        self.closed += 1

    def values(self, step: int, source: Source, name: str, statistic: str) -> list[Any]:
        return [row.value(statistic) for row in self.steps[step] if (row.source, row.name) == (source, name)]
