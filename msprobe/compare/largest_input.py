"""The largest tensor that is given to a call: the terms of the sums it makes."""

from __future__ import annotations

import math
from typing import Any

from msprobe.compare.items import INPUT, element_count, is_tensor
from msprobe.compare.table import LeafTable


def largest_input(table: LeafTable, entry: int) -> tuple[float, float]:
    """Root mean square (units of the data) and element count of the largest tensor given to the golden call; zeros
    when there is none."""
    found = (0.0, 0.0)
    for row in range(int(table.starts[entry]), int(table.starts[entry + 1])):
        leaf = table.golden[row]
        if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw):
            count = element_count(leaf.raw)
            if count > found[1]:
                found = (_rms(leaf.raw), count)
    return found


def _rms(raw: Any) -> float:
    norm = raw.get("Norm")
    try:
        usable = isinstance(norm, (int, float)) and math.isfinite(norm)
    except OverflowError:  # a damaged dump may hold anything
        return 0.0
    return float(norm) / math.sqrt(max(element_count(raw), 1.0)) if usable else 0.0
