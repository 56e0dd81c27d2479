"""Rows made of numbers, for tests of alerts."""

from __future__ import annotations

from msprobe.monitor.rows import Row
from msprobe.monitor.sources import GRADIENT_REDUCED, Source


def row(
    step: int, value: float | None, name: str = "w", statistic: str = "norm", source: Source = GRADIENT_REDUCED
) -> Row:
    """Return the row of one tensor with one statistic."""
    return Row(source, 0, name, step, None, (statistic,), (value,))
