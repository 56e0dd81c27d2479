"""Cells as what they mean: the number behind a text that shows one, and the text of everything else."""

from __future__ import annotations

import math
from typing import NamedTuple

from msprobe.numerics.metrics.statistics import Cell

Value = float | int | str
_FIRST = frozenset("0123456789-+.")


class Typed(NamedTuple):
    """``value`` is a finite number or a text; ``percent`` marks a number that its cell shows in percent (0.5: 50%)."""

    value: Value
    percent: bool = False


def typed(cell: Cell) -> Typed:
    """The meaning of a cell. NaN and infinities are texts: ``nan``, ``inf``, ``-inf``."""
    if isinstance(cell, str):
        return _of_text(cell)
    if isinstance(cell, bool) or cell is None:
        return Typed(str(cell))
    if isinstance(cell, int):
        return Typed(cell)
    return Typed(float(cell) if math.isfinite(cell) else str(float(cell)))


def _of_text(text: str) -> Typed:
    if text[:1] not in _FIRST or "_" in text:  # float() reads 1_000, which nobody writes
        return Typed(text)
    percent = text[-1] == "%"
    try:
        number = float(text[:-1] if percent else text)
    except ValueError:
        return Typed(text)
    if not math.isfinite(number):
        return Typed(text)
    return Typed(number / 100.0, True) if percent else Typed(number)
