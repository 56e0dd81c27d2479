"""The rows of the last step for programs that ask for them (``format`` api, ``generate_wgrad_metrics``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msprobe.monitor.alerts.anomaly_files import tag_of
from msprobe.monitor.rows import Row

Metrics = dict[str, dict[str, Any]]
"""Statistics by tag: ``0:fc1.weight/rank0/post_grad``."""


class LastStep:
    """Keeps the rows of the last step (implements ``RowSink``)."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()

    def write(self, step: int, rows: Sequence[Row]) -> None:
        self.rows = rows

    def close(self) -> None:
        """The rows stay."""


def metrics_of(rows: Iterable[Row], source: str, rank: int) -> Metrics:
    """Return the statistics of one source; a value that a tensor does not have is NaN."""
    found = (row for row in rows if row.source.name == source)
    return {tag_of(row, rank): _values(row) for row in found}


def _values(row: Row) -> dict[str, Any]:
    return {
        name: float("nan") if value is None else value for name, value in zip(row.statistics, row.values, strict=True)
    }
