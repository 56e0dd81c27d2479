"""The scale of gradients that cancel to nothing.

A bias gradient is a sum over many terms. Where the sum is zero by mathematics (the bias of an attention key), what is
recorded is rounding noise, and two correct runs share not one digit of it. Its natural scale is that of the terms.
An optimizer that divides by the size of the gradient (Adam) turns this noise into an update as large as any other;
what it makes of such a gradient cannot be judged. The same tensor is recognised at its later uses by its statistics.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.largest_input import largest_input
from msprobe.compare.row_facts import RowFacts
from msprobe.compare.table import LeafTable
from msprobe.numerics.verdict import Floats, Measured, Role

_OPTIMIZER = "optimizer"
_CANCELLED = 1e-3
_SOURCES = {"backward": 0, "parameters_grad": 1}  # the terms come in with the entry itself, or with its backward entry
Vanished = dict[tuple[Any, ...], float]


def natural_scales(measured: Measured, table: LeafTable, facts: RowFacts, known: Vanished) -> Floats:
    """Per numeric row of ``facts`` the least root mean square to judge it by; 0 where its own decides.

    ``known`` holds the statistics of vanished tensors and grows; give the same one to the next step, whose optimizer
    starts from them.
    """
    rows, norms = facts.numeric, facts.norms.T
    entries = table.entry_of_row()[rows]
    result = measured.role[rows] == Role.RESULT
    scales = _sum_scales(measured, table, np.where(result, entries, -1), facts)
    rms = np.where(np.isfinite(norms[1]), norms[1], 0.0) / np.sqrt(np.maximum(facts.numel, 1.0))
    vanished = rms < _CANCELLED * scales
    if not known and not vanished.any():
        return scales
    updated = np.array([key.parent == _OPTIMIZER for key in table.keys], np.bool_)[entries]
    seeds = np.concatenate(([float(print_[2] or 0.0) for print_ in known], norms[0][vanished | updated]))
    chosen = vanished | updated | np.isin(norms[0], seeds)
    tainted: set[int] = set()
    for at in chosen.nonzero()[0].tolist():
        leaf, entry = table.target[int(rows[at])], int(entries[at])
        if leaf is None:
            continue
        prints = _print(leaf.raw)
        if entry in tainted:
            scales[at] = math.inf
        elif not result[at]:
            scales[at] = known.get(prints, 0.0)
            if scales[at] and updated[at]:
                tainted.add(entry)
                scales[at] = math.inf
        if rms[at] < _CANCELLED * scales[at]:
            known[prints] = float(scales[at])
    return scales


def _print(raw: Any) -> tuple[Any, ...]:
    return raw.get("Max"), raw.get("Min"), raw.get("Norm")


def _sum_scales(measured: Measured, table: LeafTable, entries: NDArray[np.int64], facts: RowFacts) -> Floats:
    """The scale of the terms of each gradient; 0 for other values. ``entries`` is -1 for what is no result."""
    source = np.array([_SOURCES.get(key.phase, -1) for key in table.keys], np.int64)
    source = np.where(source == 1, measured.depends, np.where(source == 0, np.arange(len(source)), -1))
    wanted = np.where(entries >= 0, source[entries], -1)
    given = np.concatenate((facts.given, [[0.0, 0.0]]))
    for number in np.unique(wanted[np.isnan(given[wanted, 0])]).tolist():
        given[number] = largest_input(table, number)
    rms, count = given[wanted].T
    terms = count / np.maximum(facts.numel, 1.0)
    return np.where((terms > 1.0) & (facts.numel > 0.0), rms * np.sqrt(np.maximum(terms, 0.0)), 0.0)
