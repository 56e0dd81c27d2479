"""Sums and differences of tensors that cancel: what is left of two equal values is nothing but their rounding.

``a - b`` of two tensors that are equal by mathematics (the probabilities of one policy, computed twice) is as far off
as its operands are, and has no digit of its own. So its scale is that of the operands, where these differ between the
runs at all; of the same operands both runs make the same result.
"""

from __future__ import annotations

import numpy as np

from msprobe.compare.differences.row_facts import RowFacts
from msprobe.compare.differences.statistics_arrays import largest_input
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
    result = np.zeros(len(facts.numeric))
    names = {stem: function_of(stem) in _SUMS for stem in {key.stem for key in table.keys}}
    if not any(names.values()):
        return result
    sums = np.array([names[key.stem] and key.phase == Phase.FORWARD.value for key in table.keys], np.bool_)
    entries, roles = table.entry_of_row()[facts.numeric], facts.role[facts.numeric]
    others = np.zeros(len(table.keys), np.bool_)
    others[entries[(roles == Role.INPUT) & (facts.apart > 0.0).any(axis=1)]] = True
    for position in (sums & others)[entries].nonzero()[0].tolist():
        if roles[position] == Role.RESULT:
            rms, _ = largest_input(table, int(entries[position]))
            own = facts.size[position, 1] / np.sqrt(max(float(facts.numel[position]), 1.0))
            if own < CANCELLED * rms:
                result[position] = rms
    return result
