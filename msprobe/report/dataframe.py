"""The rows of a comparison as a pandas table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msprobe.compare.comparison import Comparison
from msprobe.compare.rows.columns import FIRST_WORD, Column, NumberColumn
from msprobe.core.errors import MsprobeException, error_text

if TYPE_CHECKING:
    import pandas as pd

_NO_VALUE = frozenset({"N/A", "None", "nan", "NaN", "Nan", "", "unsupported", "unmatched"})


def dataframe(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """Return all rows as a table; see ``CompareResult.to_dataframe``."""
    try:
        import pandas as pd
    except ImportError as error:
        reason = f"{error_text(error)}; to_dataframe() needs pandas (pip install pandas)"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    parts: list[Any] = []
    for comparison in comparisons:
        columns: list[list[Any]] = [[] for _ in comparison.columns]
        for block in comparison.blocks():
            for cells, column in zip(columns, block.columns, strict=True):
                cells += _values(column)
        place = comparison.target.place
        where = {"step": place.step, "rank": place.label}
        count = len(columns[0])
        content: dict[str, Any] = {name: [value] * count for name, value in where.items()}
        content.update({title: _column(cells) for title, cells in zip(comparison.columns, columns, strict=True)})
        parts.append(pd.DataFrame(content))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _values(column: Column) -> list[Any]:
    """Return the numbers and texts of a column; percentages as fractions, infinities as texts."""
    if not isinstance(column, NumberColumn):
        return column.cells()
    cells: list[Any] = (column.values / 100.0 if column.percent else column.values).tolist()
    for row in column.codes.nonzero()[0].tolist():
        code = int(column.codes[row])
        cells[row] = int(column.values[row]) if code < FIRST_WORD else column.words[code - FIRST_WORD]
    return [str(cell) if cell in (math.inf, -math.inf) else cell for cell in cells]


def _column(values: list[Any]) -> list[Any]:
    """Return numbers with NaN where there is none, if the column is one of numbers; else the values as they are."""
    if all(isinstance(value, str) for value in values):
        return values
    numbers: list[Any] = []
    for value in values:
        if not isinstance(value, str):
            numbers.append(value)
        elif value in _NO_VALUE:
            numbers.append(float("nan"))
        elif value in {"inf", "-inf", " inf", " -inf"}:
            numbers.append(float(value))
        else:
            return values
    return numbers
