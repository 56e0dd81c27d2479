"""A Markdown table from rows of texts, aligned so that it reads in a terminal too."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns after the first are right-aligned."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_line(row, widths) for row in [head, rule, *rows])


def figure(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = [
        cell.ljust(width) if not index else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "| " + " | ".join([first, *others]) + " |"
