"""The csv files of the second version: ``rank_{r}/{monitor}_step{first}-{last}.csv``, one for each monitor and span."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.monitor.rows import Row
from msprobe.monitor.sinks.step_lines import StepLines, span_of
from msprobe.trend.monitor_files import MONITORS

_WITH_MICRO_STEP: Final = "weight_grad"


class SecondCsv:
    """Writes rows as the second version of the monitor does (implements ``RowSink``).

    Args:
        folder: the folder of the rank; made with the first row.
        first_step: the first step of the first span.
        span: how many steps a file holds.
        last_micro_step: the micro step of gradients that are measured once a step.
    """

    def __init__(self, folder: Path, first_step: int, span: int, last_micro_step: int) -> None:
        self._folder = folder
        self._first = first_step
        self._span = span
        self._last = last_micro_step

    def write(self, step: int, rows: Sequence[Row]) -> None:
        """Append the rows to the files of the span that the step is in.

        Raises:
            OSError: a file cannot be written.
        """
        lines, span = StepLines(), span_of(step, self._first, self._span)
        for row in rows:
            if row.source.name not in MONITORS or not any(value is not None for value in row.values):
                continue
            monitor, scope = MONITORS[row.source.name]
            micro = monitor == _WITH_MICRO_STEP
            place: list[Any] = [row.stage, row.step, _name(row), scope]
            if micro:
                place.append(self._last if row.micro_step is None else row.micro_step)
            values = [_cell(name, value) for name, value in zip(row.statistics, row.values, strict=True)]
            lines.add(monitor, functools.partial(_titles, row, micro), [*place, *values])
        lines.append_to(self._folder, lambda monitor, title: self._folder / f"{monitor}_step{span}.csv")

    def close(self) -> None:
        """Nothing is open between two steps."""


def _titles(row: Row, micro: bool) -> list[str]:
    return ["vpp_stage", "step", "module_name", "scope", *(["micro_step"] if micro else []), *row.statistics]


def _name(row: Row) -> str:
    """Return the name as this version writes it: ``fc1.grad_output.0``, ``fc1.weight.exp_avg``."""
    if row.source.name.startswith("exp_avg"):
        return f"{row.name}.{row.source.name}"
    if row.position is None:
        return row.name
    module, _, kind = row.name.rpartition(".")
    return f"{module}.{'grad_' if row.source.name == 'actv_grad' else ''}{kind}.{row.position}"


def _cell(statistic: str, value: Any) -> Any:
    if value is None:
        return "nan"
    return float(value) if statistic in {"nans", "infs"} else list(value) if statistic == "shape" else value
