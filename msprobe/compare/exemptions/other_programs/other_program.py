"""Exemption for two different programs: what only one of them does in its own way is no difference.

1. Entries of one side are other code, or a lost layer (``lost_layers``).
2. A phase that only one program recorded at all is missing: a run without any backward pass says nothing about that of
   the other run. A note says how many values were not compared.
3. Values of paired entries. A value that only one program records cannot be checked. It is a difference only where it
   belongs to a lost layer, is a parameter that a layer and its partner do not share and that changes something (a
   weight of ones or a bias of zeros that is not trained does not), or is the first result of a
   forward call that the partner recorded as null. Further results, arguments and gradients may be null in one program
   (``coverage`` counts them). Between two frameworks, arguments that are no tensors (an axis, a shape, a flag: their
   effect shows in the result) cannot be checked either, and integers may have different widths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msprobe.compare.exemptions.other_programs.lost_layers import excuse_other_code
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.records.entries import EntryKey, EntryPair, is_module
from msprobe.compare.records.note import Note
from msprobe.compare.records.parameter_names import PARAMETERS
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.record_walk import OUTPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.verdict import Ints, RowKind

_TARGET, _GOLDEN = "target", "golden run"
_PHASE_TEXTS = {
    Phase.FORWARD.value: "no forward calls",
    Phase.BACKWARD.value: "no backward calls",
    Phase.PARAMETERS_GRAD.value: "no gradients of parameters",
}
_NEUTRAL = {"weight": 1.0, "bias": 0.0}

# MindSpore calls these parameters, PyTorch does not.
_RUNNING = frozenset({"moving_mean", "moving_variance", "running_mean", "running_var"})


class OtherProgram(Exemption):
    """Excuses what only one of two different programs does, and notes what was not judged therefore."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with every entry of one side that is other code marked as benign."""
        if not table.loose:
            return table
        entries = excuse_other_code(table, dumps)
        return replace(table, entries=_without_lost_phases(entries, table.keys, table.rows_per_entry()))

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of differences that are none (see ``relax_kinds``)."""
        if table.loose:
            relax_kinds(table, kinds)

    def notes(self, table: LeafTable) -> list[str]:
        """Return sentences about phases that one side lacks, and about functions that no module stands for."""
        if not table.loose:
            return []
        return _lost_phase_notes(table.entries, table.keys, table.rows_per_entry()) + _unjudged_functions(table)


def _unjudged_functions(table: LeafTable) -> list[str]:
    """Return a sentence for each side with functions of its own, where no modules are recorded that could be lost."""
    if any(map(is_module, table.keys)):
        return []
    alone: Counter[str] = Counter()
    for pair, key in zip(table.entries, table.keys, strict=True):
        if key.phase == "forward" and not key.recompute and None in pair[:2]:
            alone["target" if pair.golden is None else "golden run"] += 1
    return [
        f"no modules are recorded, which could tell lost layers from other code: {count} calls that only the {side} "
        "makes were not judged; collect at level L0 or mix"
        for side, count in sorted(alone.items())
    ]


def relax_kinds(table: LeafTable, kinds: Ints) -> None:
    """Lower the ``kinds`` of the rows of a loose table in place; kinds are those known without a tolerance."""
    rows = (kinds >= RowKind.MISSING_IN_GOLDEN).nonzero()[0]
    trained = {key.stem for key in table.keys if key.phase == Phase.PARAMETERS_GRAD.value} if rows.size else set()
    for row, entry in zip(rows.tolist(), table.entry_of_row()[rows].tolist(), strict=True):
        neutral = table.keys[entry].stem not in trained and _is_neutral(table.target[row] or table.golden[row])
        if neutral or not _is_missing(table, entry, row):
            kinds[row] = RowKind.UNCHECKED
    if not table.across:
        return
    kinds[kinds == RowKind.ARGUMENT] = RowKind.UNCHECKED
    for row in (kinds == RowKind.DTYPE).nonzero()[0].tolist():
        target, golden = table.target[row], table.golden[row]
        if target is not None and golden is not None and _is_integer(target.raw) and _is_integer(golden.raw):
            kinds[row] = RowKind.NONE


def _is_missing(table: LeafTable, entry: int, row: int) -> bool:
    pair = table.entries[entry]
    if pair.target is None or pair.golden is None:
        return not pair.benign
    if _is_lost_result(table, entry, row):
        return True
    leaf = table.target[row] or table.golden[row]
    if leaf is None or leaf.slot not in (PARAMETER, PARAMETER_GRAD) or not (_is_layer(pair.target, pair.golden)):
        return False
    return leaf.suffix.rpartition(".")[2] not in _RUNNING


def _is_neutral(leaf: Leaf | None) -> bool:
    """Return whether a leaf is a parameter that changes nothing: a weight of ones, or a bias of zeros."""
    if leaf is None or leaf.slot != PARAMETER or not is_tensor(leaf.raw):
        return False
    name = leaf.suffix.rpartition(".")[2]
    constant = _NEUTRAL.get(PARAMETERS.get(name, name))
    return constant is not None and leaf.raw.get(LARGEST.name) == leaf.raw.get(SMALLEST.name) == constant


def _is_lost_result(table: LeafTable, entry: int, row: int) -> bool:
    """Return whether the row is the first result of a forward call, a tensor on one side and null on the other."""
    if table.keys[entry].phase != Phase.FORWARD.value:
        return False
    target_row, target = _first_result(table.target, table, entry)
    golden_row, golden = _first_result(table.golden, table, entry)
    if target is None or golden is None:
        return False
    if target.raw is None:
        return row == golden_row and is_tensor(golden.raw)
    return row == target_row and golden.raw is None and is_tensor(target.raw)


def _first_result(side: Sequence[Leaf | None], table: LeafTable, entry: int) -> tuple[int, Leaf | None]:
    """Return row and leaf of the first result of a side in an entry; (-1, None) where it has none."""
    results = [(row, leaf) for row in table.rows_of(entry) if (leaf := side[row]) is not None and leaf.slot == OUTPUT]
    return min(results, key=lambda result: (len(result[1].suffix), result[1].suffix), default=(-1, None))


def _is_layer(*names: str) -> bool:
    return all(is_module_name(name) for name in names)


def _is_integer(raw: Any) -> bool:
    dtype = find_dtype(str(raw["dtype"]))
    return dtype is not None and dtype.kind is DtypeKind.INT


def _without_lost_phases(
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


def _lost_phase_notes(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows_per_entry: Sequence[int]
) -> list[str]:
    """Return a sentence for each phase that one side lacks; the arguments are those of ``_without_lost_phases``."""
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
