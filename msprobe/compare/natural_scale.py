"""The scale of gradients that cancel to nothing.

A bias gradient is a sum over many terms. Where the sum is zero by mathematics (the bias of an attention key), what is
recorded is rounding noise, and two correct runs share not one digit of it. Its natural scale is that of the terms.
An optimizer that divides by the size of the gradient (Adam) turns this noise into an update as large as any other;
what
it makes of such a gradient cannot be judged. The same tensor is recognised at its later uses by its statistics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.items import INPUT, element_count, is_tensor
from msprobe.compare.table import LeafTable
from msprobe.numerics.verdict import Floats, Measured, Role

_OPTIMIZER = "optimizer"
_CANCELLED = 1e-3
Vanished = dict[tuple[Any, ...], float]


def natural_scales(measured: Measured, table: LeafTable, rows: NDArray[np.int64], known: Vanished) -> Floats:
    """Per row of ``rows`` (ascending) the least root mean square to judge it by; 0 where its own decides.

    ``known`` holds the statistics of vanished tensors and grows; give the same one to the next step, whose optimizer
    starts from them.
    """
    entries = (np.searchsorted(measured.row_starts, rows, side="right") - 1).tolist()
    plain = [key.phase == "forward" for key in table.keys]
    tainted: set[int] = set()
    sources: dict[int, tuple[float, float]] = {}
    found = np.zeros(len(rows))
    for at, (row, entry) in enumerate(zip(rows.tolist(), entries, strict=True)):
        if plain[entry] and not known:
            continue
        ours, theirs = table.target[row], table.golden[row]
        if ours is None or theirs is None:
            continue
        prints = _print(ours.raw)
        if entry in tainted:
            scale = math.inf
        elif measured.role[row] != Role.RESULT:
            scale = known.get(prints, 0.0)
            if scale and table.key(entry).parent == _OPTIMIZER:
                tainted.add(entry)
                scale = math.inf
        else:
            scale = _sum_scale(measured, table, entry, element_count(theirs.raw), sources)
        if scale and _rms(theirs.raw) < _CANCELLED * scale:
            known[prints] = scale
        found[at] = scale
    return found


def _print(raw: Any) -> tuple[Any, ...]:
    return raw.get("Max"), raw.get("Min"), raw.get("Norm")


def _sum_scale(
    measured: Measured, table: LeafTable, entry: int, made: float, sources: dict[int, tuple[float, float]]
) -> float:
    phase = table.key(entry).phase
    if phase not in ("backward", "parameters_grad"):
        return 0.0
    source = int(measured.depends[entry]) if phase == "parameters_grad" else entry
    if source < 0:
        return 0.0
    if source not in sources:
        rows = range(int(table.starts[source]), int(table.starts[source + 1]))
        sources[source] = _largest_input(table.golden[row] for row in rows)
    rms, given = sources[source]
    return rms * math.sqrt(given / made) if given > made > 0.0 else 0.0


def _largest_input(leaves: Iterable[Any]) -> tuple[float, float]:
    """Root mean square and element count of the largest tensor given; zeros when there is none."""
    found = (0.0, 0.0)
    for leaf in leaves:
        if leaf is not None and leaf.slot == INPUT and is_tensor(leaf.raw):
            count = element_count(leaf.raw)
            if count > found[1]:
                found = (_rms(leaf.raw), count)
    return found


def _rms(raw: Any) -> float:
    norm = raw.get("Norm")
    usable = isinstance(norm, (int, float)) and math.isfinite(norm)
    return float(norm) / math.sqrt(max(element_count(raw), 1.0)) if usable else 0.0
