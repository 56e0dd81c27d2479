"""A phase that only one of two different programs recorded: forward calls, backward calls, or gradients of parameters.

Between such programs a single function without a partner is other code. A whole phase is not: a run without any
backward pass says nothing about the backward pass of the other run. The entries of such a phase are missing, and the
answer says that they were not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msprobe.compare.pairs import EntryKey, EntryPair
from msprobe.core.naming.model import Phase

TARGET, GOLDEN = "target", "golden run"
_PHASE_TEXTS = {
    Phase.FORWARD.value: "no forward calls",
    Phase.BACKWARD.value: "no backward calls",
    Phase.PARAMETERS_GRAD.value: "no gradients of parameters",
}


def missing_phases(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], row_counts: Sequence[int]
) -> list[EntryPair]:
    """Return the entries, none of them benign in a phase that one side lacks. ``keys`` and ``row_counts`` have one item
    per entry."""
    phases = {phase for phase, _, _, _ in _one_sided_phases(entries, keys, row_counts)}
    if not phases:
        return list(entries)
    return [
        pair._replace(benign=False) if key.phase in phases and not key.recompute else pair
        for pair, key in zip(entries, keys, strict=True)
    ]


def missing_phase_notes(entries: Sequence[EntryPair], keys: Sequence[EntryKey], row_counts: Sequence[int]) -> list[str]:
    """Return a sentence for each phase that one side lacks; the arguments are those of ``missing_phases``."""
    return [
        f"the {lacking} recorded {_PHASE_TEXTS[phase]}: {count} values of the {other} were not compared"
        for phase, lacking, other, count in _one_sided_phases(entries, keys, row_counts)
    ]


def _one_sided_phases(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], row_counts: Sequence[int]
) -> list[tuple[str, str, str, int]]:
    """Return for each phase of one side: the phase, the side that lacks it, the other side, and its values there."""
    values: Counter[tuple[str, str]] = Counter()
    for pair, key, count in zip(entries, keys, row_counts, strict=True):
        if pair.target is not None:
            values[TARGET, key.phase] += count
        if pair.golden is not None:
            values[GOLDEN, key.phase] += count
    one_sided = []
    for phase in _PHASE_TEXTS:
        target, golden = values[TARGET, phase], values[GOLDEN, phase]
        if target and not golden:
            one_sided.append((phase, GOLDEN, TARGET, target))
        elif golden and not target:
            one_sided.append((phase, TARGET, GOLDEN, golden))
    return one_sided
