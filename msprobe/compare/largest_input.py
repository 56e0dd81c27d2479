"""The largest tensor that is given to a call: the terms of the sums it makes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from msprobe.compare.items import INPUT, element_count, is_tensor
from msprobe.compare.recorded_number import as_float
from msprobe.compare.table import LeafTable
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.numerics.verdict import Bools, Floats

_NORM = STATISTIC_NAMES.index("Norm")


def largest_inputs(table: LeafTable, entries: Bools, inputs: Bools) -> Floats:
    """Return ``largest_input`` of ``entries`` (one bool per entry), shape (entries, 2), NaN for all other entries.

    ``inputs`` has one bool per row and marks the inputs.
    """
    found = np.full((len(table.entries), 2), np.nan)
    pairs, entry = table.float_pairs, table.entry_of_row()
    others = inputs & entries[entry]
    others[pairs.rows] = False
    plain = entries & np.array(table.alike, np.bool_)
    plain[[entry[row] for row in others.nonzero()[0].tolist() if _is_tensor(table, row)]] = False
    for number in (entries & ~plain).nonzero()[0].tolist():
        found[number] = largest_input(table, number)
    found[plain] = 0.0
    counts = np.array([element_count(golden) for _, golden in pairs.samples])[pairs.frames]
    wanted = inputs[pairs.rows] & plain[entry[pairs.rows]] & (counts > 0.0)
    rows, counts, norms = pairs.rows[wanted], counts[wanted], pairs.values[wanted, 1, _NORM]
    rms = np.where(np.isfinite(norms), norms, 0.0) / np.sqrt(np.maximum(counts, 1.0))
    last_wins = np.lexsort((-rows, counts))
    found[entry[rows[last_wins]]] = np.stack((rms, counts), axis=1)[last_wins]
    return found


def _is_tensor(table: LeafTable, row: int) -> bool:
    leaf = table.golden[row]
    return leaf is not None and is_tensor(leaf[2])


def largest_input(table: LeafTable, entry: int) -> tuple[float, float]:
    """Return root mean square (data units) and element count of the largest tensor given to the golden call; zeros when
    there is none."""
    found = (0.0, 0.0)
    for row in range(int(table.starts[entry]), int(table.starts[entry + 1])):
        leaf = table.golden[row]
        if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw):
            count = element_count(leaf.raw)
            if count > found[1]:
                found = (_rms(leaf.raw), count)
    return found


def _rms(raw: Any) -> float:
    norm = as_float(raw.get("Norm"))
    return norm / math.sqrt(max(element_count(raw), 1.0)) if math.isfinite(norm) else 0.0
