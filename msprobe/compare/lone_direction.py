"""A direction that only one of two different programs recorded: the forward calls, the backward calls, the gradients.

Between such programs a single function without a partner is other code. A whole direction is no choice of words: a run
without any backward pass cannot vouch for that of the other, so its entries are missing, and the answer says that they
were not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msprobe.compare.pairs import EntryKey, EntryPair
from msprobe.core.naming.model import Phase

TARGET, GOLDEN = "target", "golden run"
_TOLD = {
    Phase.FORWARD.value: "no forward calls",
    Phase.BACKWARD.value: "no backward calls",
    Phase.PARAMETERS_GRAD.value: "no gradients of parameters",
}


def lost_directions(entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows: Sequence[int]) -> list[EntryPair]:
    """The entries, none of them benign in a direction that one side lacks. ``keys`` and ``rows`` (how many) are those
    of each entry."""
    lone = {phase for phase, _, _, _ in _lone(entries, keys, rows)}
    if not lone:
        return list(entries)
    return [
        pair._replace(benign=False) if key.phase in lone and not key.recompute else pair
        for pair, key in zip(entries, keys, strict=True)
    ]


def lone_directions(entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows: Sequence[int]) -> list[str]:
    """A sentence for each direction that one side lacks; arguments as for ``lost_directions``."""
    return [
        f"the {lacking} recorded {_TOLD[phase]}: {count} values of the {other} were not compared"
        for phase, lacking, other, count in _lone(entries, keys, rows)
    ]


def _lone(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows: Sequence[int]
) -> list[tuple[str, str, str, int]]:
    """Phase, the side that lacks it, the other side, and how many values that has."""
    values: Counter[tuple[str, str]] = Counter()
    for pair, key, count in zip(entries, keys, rows, strict=True):
        if pair.target is not None:
            values[TARGET, key.phase] += count
        if pair.golden is not None:
            values[GOLDEN, key.phase] += count
    found = []
    for phase in _TOLD:
        ours, theirs = values[TARGET, phase], values[GOLDEN, phase]
        if ours and not theirs:
            found.append((phase, GOLDEN, TARGET, ours))
        elif theirs and not ours:
            found.append((phase, TARGET, GOLDEN, theirs))
    return found
