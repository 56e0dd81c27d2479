"""What a comparison of two different programs cannot have looked at: a direction that only one of them recorded.

Between such programs a single call without a partner means nothing. A run without any backward pass means that the
verdict is about the forward pass alone.
"""

from __future__ import annotations

from collections import Counter

from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import Phase

_TOLD = {
    Phase.FORWARD: "no forward calls",
    Phase.BACKWARD: "no backward calls",
    Phase.PARAMETERS_GRAD: "no gradients of parameters",
}


def lone_directions(table: LeafTable) -> list[str]:
    """A sentence for each direction that one side lacks altogether; none where lone calls are divergences anyway."""
    if not table.loose:
        return []
    values: Counter[tuple[str, str]] = Counter()
    for number, pair in enumerate(table.entries):
        rows = int(table.starts[number + 1] - table.starts[number])
        for side, name in (("target", pair.target), ("golden run", pair.golden)):
            if name is not None:
                values[side, table.key(number).phase] += rows
    told = []
    for phase, text in _TOLD.items():
        ours, theirs = (values[side, phase.value] for side in ("target", "golden run"))
        if (ours > 0) != (theirs > 0):
            lacking, other, rows = ("golden run", "target", ours) if ours else ("target", "golden run", theirs)
            told.append(f"the {lacking} recorded {text}: {rows} values of the {other} were not compared")
    return told
