"""The metrics of two whole tensors as a table shows them; ``msprobe.numerics.metrics.tensor`` computes them.

A comparison of statistics shows no whole tensor, and does not load what computes them.
"""

from __future__ import annotations

from typing import Final

from msprobe.numerics.metrics.statistics import Cell

TENSOR_METRICS: Final = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)
"""The titles of the metrics, in table order."""


def in_all_columns(word: str) -> tuple[Cell, ...]:
    """Return cells that show the same word for every metric."""
    return (word,) * len(TENSOR_METRICS)


UNSUPPORTED = in_all_columns("unsupported")
