"""Sums and differences of tensors that cancel: what is left of two equal values is nothing but their rounding.

``a - b`` of two tensors that are equal by mathematics (the probabilities of one policy, computed twice) is as far off
as its operands are, and has no digit of its own. So its scale is that of the operands, where these differ between the
runs at all; of the same operands both runs make the same result.
"""

from __future__ import annotations

import numpy as np

from msprobe.compare.differences.row_facts import RowFacts
from msprobe.compare.records.entries import function_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.numerics.verdict import Floats, Role

CANCELLED = 1e-3
"""The share of its terms below which a sum counts as nothing but rounding."""
_SUMS = frozenset({"add", "radd", "iadd", "sub", "rsub", "isub", "subtract"})


def scales_of_sums(table: LeafTable, facts: RowFacts) -> Floats:
    """Return the size of the operands (a root mean square, in data units) for each numeric row of ``facts`` that is the
    cancelled result of a forward sum with operands that differ; 0 for other rows."""
    names = {stem: function_of(stem) in _SUMS for stem in {key.stem for key in table.keys}}
    if not any(names.values()):
        return np.zeros(len(facts.numeric))
    sums = np.array([names[key.stem] and key.phase == Phase.FORWARD.value for key in table.keys], np.bool_)
    entries, inputs = table.entry_of_row()[facts.numeric], facts.role[facts.numeric] == Role.INPUT
    differing = np.zeros(len(table.keys), np.bool_)
    differing[entries[inputs & (facts.apart > 0.0).any(axis=1)]] = True
    rms = facts.size[:, 1] / np.sqrt(np.maximum(facts.numel, 1.0))
    operands = np.zeros(len(table.keys))
    np.maximum.at(operands, entries[inputs], np.where(np.isfinite(rms), rms, 0.0)[inputs])
    is_result = (sums & differing)[entries] & (facts.role[facts.numeric] == Role.RESULT)
    return np.where(is_result & (rms < CANCELLED * operands[entries]), operands[entries], 0.0)
