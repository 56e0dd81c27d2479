"""The documented csv files of the monitor: ``{source}_{first}-{last}.csv``, a file for each source and span of steps.

A step is written, and handed to the system, when it ends: what a killed process had measured is there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msprobe.monitor.rows import Row
from msprobe.monitor.sinks.step_lines import StepLines, span_of

_SHOWN_BY_LIST = frozenset({"shape"})


class CsvFiles:
    """Writes rows as the first version of the monitor does (implements ``RowSink``).

    Args:
        folder: made with the first row.
        first_step: the first step of the first span.
        span: how many steps a file holds.
        digits: how many digits behind the point are kept.
    """

    def __init__(self, folder: Path, first_step: int, span: int, digits: int) -> None:
        self._folder = folder
        self._first = first_step
        self._span = span
        self._digits = digits

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """Append the rows to the files of the span that the step is in.

        Raises:
            OSError: a file cannot be written.
        """
        lines, span = StepLines(), span_of(step, self._first, self._span)
        for row in rows:
            lines.add(row.source.name, functools.partial(columns_of, row), self._cells(row))
        lines.append_to(self._folder, lambda name, title: self._folder / f"{name}_{span}.csv")

    def close(self) -> None:
        """Nothing is open between two steps."""

    def _cells(self, row: Row) -> list[Any]:
        micro = [] if row.micro_step is None else [row.micro_step]
        values = [self._cell(name, value) for name, value in zip(row.statistics, row.values, strict=True)]
        return [row.stage, row.label, row.step, *micro, *values]

    def _cell(self, statistic: str, value: Any) -> Any:
        if isinstance(value, float):
            return round(value, self._digits) if math.isfinite(value) else value
        if value is None:
            return "nan"
        return list(value) if statistic in _SHOWN_BY_LIST else value


def columns_of(row: Row) -> list[str]:
    """Return the titles of the columns of a row."""
    micro = [] if row.micro_step is None else ["micro_step"]
    return ["vpp_stage", "name", "step", *micro, *row.statistics]
