"""Phases that only one of two different programs recorded at all: these entries are missing.

A run without any backward pass says nothing about the backward pass of the other run. A note says that forward calls,
backward calls or gradients of parameters of one side were not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msprobe.compare.records.entries import EntryKey, EntryPair
from msprobe.compare.records.note import Note
from msprobe.core.naming.names import Phase

_TARGET, _GOLDEN = "target", "golden run"
_PHASE_TEXTS = {
    Phase.FORWARD.value: "no forward calls",
    Phase.BACKWARD.value: "no backward calls",
    Phase.PARAMETERS_GRAD.value: "no gradients of parameters",
}


def missing_phases(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows_per_entry: Sequence[int]
) -> list[EntryPair]:
    """Return the entries; those of a phase that one side lacks are benign no longer.

    ``keys`` and ``rows_per_entry`` have one item per entry.
    """
    phases = {phase for phase, _, _, _ in _one_sided_phases(entries, keys, rows_per_entry)}
    if not phases:
        return list(entries)
    return [
        pair._replace(absence=None) if key.phase in phases and not key.recompute else pair
        for pair, key in zip(entries, keys, strict=True)
    ]


def missing_phase_notes(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows_per_entry: Sequence[int]
) -> list[str]:
    """Return a sentence for each phase that one side lacks; the arguments are those of ``missing_phases``."""
    return [
        Note(count, "", f"the {lacking} recorded {_PHASE_TEXTS[phase]}: {{}} values of the {other} were not compared")
        for phase, lacking, other, count in _one_sided_phases(entries, keys, rows_per_entry)
    ]


def _one_sided_phases(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows_per_entry: Sequence[int]
) -> list[tuple[str, str, str, int]]:
    """Return for each phase of one side: the phase, the side that lacks it, the other side, and its values there."""
    values: Counter[tuple[str, str]] = Counter()
    for pair, key, count in zip(entries, keys, rows_per_entry, strict=True):
        if pair.target is not None:
            values[_TARGET, key.phase] += count
        if pair.golden is not None:
            values[_GOLDEN, key.phase] += count
    one_sided = []
    for phase in _PHASE_TEXTS:
        target, golden = values[_TARGET, phase], values[_GOLDEN, phase]
        if target and not golden:
            one_sided.append((phase, _GOLDEN, _TARGET, target))
        elif golden and not target:
            one_sided.append((phase, _TARGET, _GOLDEN, golden))
    return one_sided
