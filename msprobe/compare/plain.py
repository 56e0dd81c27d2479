"""The cells of ordinary rows, many at once: pairs of tensors whose eight statistics are all finite floats.

Nearly every row of a statistics table is of this kind. Differences are computed as arrays and numbers become text
in bulk;
the cells are the same as those made one by one, in the text Python's ``repr`` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from msprobe.compare.items import Leaf

_FLOATS = {float}


def statistics_cells(
    target: Sequence[Leaf | None], golden: Sequence[Leaf | None], start: int, stop: int
) -> dict[int, str]:
    """By row number in ``range(start, stop)``, joined by commas: four differences, four relative ones, and the
    eight statistics."""
    rows: list[int] = []
    values: list[float] = []
    for row in range(start, stop):
        ours, theirs = target[row], golden[row]
        if ours is None or theirs is None:
            continue
        eight = _eight(ours.raw, theirs.raw)
        if eight is not None:
            rows.append(row)
            values.extend(eight)
    return _cells(rows, np.array(values, np.float64).reshape(-1, 8)) if rows else {}


def _eight(ours: Any, theirs: Any) -> tuple[Any, ...] | None:
    try:
        eight = (
            ours["Max"],
            ours["Min"],
            ours["Mean"],
            ours["Norm"],
            theirs["Max"],
            theirs["Min"],
            theirs["Mean"],
            theirs["Norm"],
        )
    except (KeyError, TypeError):
        return None
    return eight if set(map(type, eight)) == _FLOATS else None


def _cells(rows: Sequence[int], values: NDArray[np.float64]) -> dict[int, str]:
    with np.errstate(all="ignore"):
        difference = values[:, :4] - values[:, 4:]
        percent = np.abs(difference / values[:, 4:] * 100)
    everything = np.concatenate((values, difference, percent), axis=1)
    usable = np.isfinite(everything[:, :12]).all(axis=1).tolist()
    texts = float_texts(everything.ravel())
    found: dict[int, str] = {}
    for number, row in enumerate(rows):
        if usable[number]:
            at = 16 * number
            found[row] = _row_text(texts[at : at + 8], texts[at + 8 : at + 12], texts[at + 12 : at + 16])
    return found


def _row_text(values: list[str], difference: list[str], percent: list[str]) -> str:
    cells, relative = [], []
    for k in range(4):
        if values[k] == values[k + 4]:
            cells.append("0")
            relative.append("0")
        else:
            cells.append(difference[k])
            relative.append("inf" if percent[k] in _NOT_FINITE else percent[k] + "%")
    return ",".join((*cells, *relative, *values))


_NOT_FINITE = ("Infinity", "NaN")


def float_texts(values: NDArray[np.float64]) -> list[str]:
    """The shortest text that reads back as the same float, as ``repr`` writes it; NaN and infinities as JSON
    tokens."""
    texts = to_json(values.tolist(), inf_nan_mode="constants").decode().strip("[]").split(",")
    with np.errstate(invalid="ignore"):
        size = np.abs(values)
        odd = np.isfinite(values) & ((size >= 1e15) | ((size < 1.1e-4) & (size > 0)))
    for at in odd.nonzero()[0].tolist():
        texts[at] = repr(float(values[at]))
    return texts
