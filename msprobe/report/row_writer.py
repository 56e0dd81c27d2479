"""Rows as the text of the result table that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msprobe.compare.rows import RowBlock
from msprobe.report.csv import Chunks, chunks
from msprobe.report.outcome import PairOptions


def row_writer(options: PairOptions) -> Callable[[Iterable[RowBlock], int], Chunks]:
    """What turns blocks of rows, of which the first has this number in the whole table, into numbers of rows and their
    text.

    Raises:
        MsprobeException: xlsxwriter is wanted and not installed.
    """
    if not options.xlsx:
        return chunks
    from msprobe.report.xlsx import sheet_chunks

    return sheet_chunks()
