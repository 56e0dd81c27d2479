"""One line of the log per compared value, for those who follow a comparison on the screen (``-tensor_log``)."""

from __future__ import annotations

from msprobe.compare.run import Comparison
from msprobe.core.log import logger

_HEAD = 8  # names and kinds come before the metrics
_AFTER_METRICS = ("NPU max", "Requires_grad Consistent")


def log_items(comparison: Comparison) -> None:
    """Log name, metrics and verdict of every row."""
    titles = comparison.columns
    end = min(titles.index(title) for title in _AFTER_METRICS if title in titles)
    for row in comparison.rows():
        shown = zip(titles[_HEAD:end], row.cells[_HEAD:end], strict=True)
        metrics = ", ".join(f"{title} {value}" for title, value in shown)
        name = row.golden if row.target == "N/A" else row.target
        logger.info("[%s] Compare result: %s, Result %s", name, metrics, row.level)
