"""Forward calls that activation checkpointing repeats, where only one side has them.

The other side has no call to compare them with, but the call that they repeat has been compared. A repetition with the
values of that call needs no judging; one with other values makes other gradients, and is a difference. One whose
original is not recorded, or has no values, stays unchecked, and the answer says so.

A backward pass may also call modules at other points (the adjoint of an integration). Where no call makes other results
of what it got before, such calls repeat nothing, and are judged as any others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.records.entries import Absence, is_module
from msprobe.compare.table.table import ChangedRecompute, LeafTable
from msprobe.core.store.record_walk import INPUT, Leaf, is_tensor
from msprobe.core.tensors.statistics import LARGEST, STATISTIC_NAMES
from msprobe.numerics.tolerance import unit_roundoff
from msprobe.trace.likeness import distance

_CLOSE = 1e-5
_FRAME = ("shape", "dtype")
_INPUT = f".{INPUT}"
_DIGEST = "md5"


class Recompute(Exemption):
    """Compares the recomputed calls of one side with the calls that they repeat."""

    def __init__(self) -> None:
        self._unmatched: set[int] = set()  # those that repeat no call with values

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with recomputed calls of one side marked: ``changed`` ones are benign no longer."""
        for side in (0, 1):
            one_sided = [
                number
                for number, pair in enumerate(table.entries)
                if pair.benign and table.keys[number].recompute and pair[1 - side] is None
            ]
            if one_sided:
                table, unmatched = _judged_recomputes(table, one_sided)
                self._unmatched |= unmatched
        return table

    def notes(self, table: LeafTable) -> list[str]:
        """Return a sentence for each side that has recomputed calls without a call to compare them with."""
        notes = []
        for side, name in enumerate(("target", "golden run")):
            names = (table.entries[number][side] for number in sorted(self._unmatched))
            calls = [call for call in names if call is not None]
            if calls:
                notes.append(
                    f"recomputed calls of the {name} could not be held against the calls they repeat, and the other "
                    f"side recomputes nothing to compare them with: {len(calls)} not judged, first {calls[0]}"
                )
        return notes


def _judged_recomputes(table: LeafTable, calls: Sequence[int]) -> tuple[LeafTable, set[int]]:
    """Return the table with ``changed`` for recomputed calls that one side alone has, and those that repeat none."""
    stems = {table.keys[number].stem for number in calls}
    originals: dict[str, list[int]] = {}
    for number, key in enumerate(table.keys):
        if key.phase == "forward" and not key.recompute and key.stem in stems:
            originals.setdefault(key.stem, []).append(number)
    entries = list(table.entries)
    repeated = {number: _repeated(table, number, originals.get(table.keys[number].stem, ())) for number in calls}
    changed = {number: call for number, call in repeated.items() if call is not None and call.differing}
    if changed and all(call.has_other_inputs for call in changed.values()):
        for number in calls:
            entries[number] = entries[number]._replace(absence=None)
        return replace(table, entries=entries), set()
    unmatched = {number for number, call in repeated.items() if call is None}
    for number in (*unmatched, *changed):
        if number in changed or entries[number].absence is Absence.RECOMPUTED:
            absence = None if number in changed else Absence.RECOMPUTED_UNMATCHED
            entries[number] = entries[number]._replace(absence=absence)
    texts = {
        number: ChangedRecompute(call.differing[0], table.keys[call.number].name) for number, call in changed.items()
    }
    return replace(table, entries=entries, changed={**table.changed, **texts}), unmatched


class _Repeated(NamedTuple):
    """The call that a recomputed call repeats, and the suffixes of the values in which they differ."""

    number: int
    differing: list[str]

    @property
    def has_other_inputs(self) -> bool:
        return any(suffix.startswith(_INPUT) for suffix in self.differing)


def _repeated(table: LeafTable, number: int, originals: Sequence[int]) -> _Repeated | None:
    """Return the call of these of one name that a call repeats; None where that is not known.

    A call repeats another one (a function: in the same module, as far as that is recorded) where all that both recorded
    agrees: a repetition ends as soon as backward has what it needs.
    """
    differing = {call: _differing_values(table, number, call) for call in originals if _may_repeat(table, number, call)}
    known = [_Repeated(call, values) for call, values in differing.items() if values is not None]
    nearest = min(known, key=lambda call: len(call.differing), default=None)
    return None if nearest is None or (nearest.differing and len(known) < len(differing)) else nearest


def _may_repeat(table: LeafTable, number: int, original: int) -> bool:
    own, key = table.keys[number].parent, table.keys[original]
    return is_module(key) or own in ("", key.parent)


def _differing_values(table: LeafTable, number: int, original: int) -> list[str] | None:
    """Return the suffixes of the values in which a call differs from the call it may repeat; None where no values can
    be compared."""
    side = table.golden if table.entries[number].target is None else table.target
    values, original_values = (dict(_values_by_suffix(table, side, entry)) for entry in (number, original))
    same = {
        suffix: _same_value(raw, original_values[suffix]) for suffix, raw in values.items() if suffix in original_values
    }
    differing = [suffix for suffix, is_same in same.items() if is_same is False]
    return differing if differing or (same and None not in same.values()) else None


def _values_by_suffix(table: LeafTable, side: Sequence[Leaf | None], entry: int) -> Iterator[tuple[str, Any]]:
    for row in table.rows_of(entry):
        leaf = side[row]
        if leaf is not None:
            yield leaf.suffix, leaf.raw


def _same_value(again: Any, original: Any) -> bool | None:
    """Return whether two recorded values are one value up to rounding; None where a side has no numbers."""
    if not (is_tensor(again) and is_tensor(original)):
        return bool(again == original)
    if any(again[name] != original[name] for name in _FRAME):
        return False
    if again.get(_DIGEST) is not None and original.get(_DIGEST) is not None:
        return bool(again[_DIGEST] == original[_DIGEST])
    if not (_has_statistics(again) and _has_statistics(original)):
        known = again.get(LARGEST.name) is not None
        if known and all(again.get(name) == original.get(name) for name in STATISTIC_NAMES):
            return True  # no Mean and Norm of this dtype
        return True if 0 in again["shape"] else None
    return distance(again, original) <= max(_CLOSE, 2.0 * unit_roundoff(str(again["dtype"])))


def _has_statistics(raw: Mapping[str, Any]) -> bool:
    return all(isinstance(raw.get(name), (int, float)) for name in STATISTIC_NAMES)
