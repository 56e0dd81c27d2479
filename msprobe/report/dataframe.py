"""The rows of a comparison as a pandas table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msprobe.compare.run import Comparison
from msprobe.core.errors import MsprobeException, error_text
from msprobe.report.typed import Value, typed

if TYPE_CHECKING:
    import pandas as pd

_NO_VALUE = frozenset({"N/A", "None", "nan", "NaN", "Nan", "", "unsupported", "unmatched"})


def dataframe(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """See ``CompareResult.to_dataframe``."""
    try:
        import pandas as pd
    except ImportError as error:
        reason = f"{error_text(error)}; to_dataframe() needs pandas (pip install pandas)"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    parts: list[Any] = []
    for comparison in comparisons:
        columns = list(zip(*(row.cells for row in comparison.rows()), strict=True)) or [()] * len(comparison.columns)
        place = comparison.target.place
        where = {"step": place.step, "rank": place.label}
        count = len(columns[0])
        content: dict[str, Any] = {name: [value] * count for name, value in where.items()}
        content.update({title: _column(cells) for title, cells in zip(comparison.columns, columns, strict=True)})
        parts.append(pd.DataFrame(content))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _column(cells: Iterable[Any]) -> list[Value | None]:
    """Numbers with NaN where there is none, if the column is one of numbers; else the texts."""
    values = [typed(cell).value for cell in cells]
    numbers = [value for value in values if not isinstance(value, str)]
    if not numbers:
        return list(values)
    plain: list[Value | None] = []
    for value in values:
        if not isinstance(value, str):
            plain.append(value)
        elif value in _NO_VALUE:
            plain.append(float("nan"))
        elif value in {"inf", "-inf", " inf", " -inf"}:
            plain.append(float(value))
        else:
            return list(values)
    return plain
