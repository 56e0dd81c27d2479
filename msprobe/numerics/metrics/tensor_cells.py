"""The cells that compare two whole tensors: the titles of their columns, and what they show without numbers."""

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
"""The titles of the metrics, in table order. ``TensorDifference.cells`` has one cell for each of them."""


def in_all_columns(word: str) -> tuple[Cell, ...]:
    """Return cells that show the same word for every metric."""
    return (word,) * len(TENSOR_METRICS)


UNSUPPORTED = in_all_columns("unsupported")
