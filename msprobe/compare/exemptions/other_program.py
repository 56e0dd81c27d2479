"""Exemptions for two different programs: what only one of them does in its own way is no difference.

``OtherProgram`` has three rules.

1. Entries. A function that only one program calls is other code: the other program computes the same in another way. A
   module that holds parameters, or whose result the other side has nowhere, is lost when only one side has it. These
   modules are not lost: fused modules, as a mapping or the inference says, with all modules below them; modules without
   own parameters around modules that have partners (a wrapper); modules without own parameters whose results are among
   the values of the other side (an activation as a function), or inside a layer that is one call of the other side (a
   recurrent layer and its directions: the result of the layer decides). A gradient of a module that has a partner is
   lost when only one side records it.
2. Phases. Forward calls, backward calls or gradients of parameters that only one program recorded at all are missing: a
   run without any backward pass says nothing about the backward pass of the other run. A note says that these entries
   were not compared.
3. Values of paired entries. A value that only one program records cannot be checked. It is a difference only where it
   belongs to a lost layer, is a parameter that a layer and its partner do not share and that changes something (a
   weight of ones or a bias of zeros that is not trained does not), or is the first result of a
   forward call that the partner recorded as null. Further results, arguments and gradients may be null in one program
   (``coverage`` counts them). Between two frameworks, arguments that are no tensors (an axis, a shape, a flag: their
   effect shows in the result) cannot be checked either, and integers may have different widths.

``CommutedOperands`` is for operands that two programs, or two versions of one, write in another order, ``x + h`` and
``h + x``. The operands of an operator that does not depend on their order pair by their values; in backward their
gradients do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from msprobe.compare.alignment.cross_framework import PARAMETERS
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Policy
from msprobe.compare.records.entries import Absence, EntryKey, EntryPair, is_module, path_of, stem_of
from msprobe.compare.records.likeness import distance, distances, same_checksums
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor, leaves
from msprobe.core.tensors.dtypes import DtypeKind, find_dtype
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.verdict import Ints, RowKind

if TYPE_CHECKING:
    from msprobe.compare.layer_inference.tensor_signature import TensorIndex

_COMMUTATIVE = frozenset({"~add", "~mul", "~maximum", "~minimum", "~eq", "~ne", "~and", "~or"})
_CLEARLY_LESS = 0.1
_NO_LEAF = Leaf("", "", None)

TARGET, GOLDEN = "target", "golden run"
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
        return replace(table, entries=missing_phases(entries, table.keys, table.rows_per_entry()))

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of differences that are none (see ``relax_kinds``)."""
        if table.loose:
            relax_kinds(table, kinds)

    def notes(self, table: LeafTable) -> list[str]:
        """Return sentences about phases that one side lacks, and about functions that no module stands for."""
        if not table.loose:
            return []
        return missing_phase_notes(table.entries, table.keys, table.rows_per_entry()) + _unjudged_functions(table)


# Entries that are other code


def excuse_other_code(table: LeafTable, dumps: ComparedDumps) -> list[EntryPair]:
    """Return the entries of a table of two different programs, benign where an entry of one side is other code."""
    both = [pair for pair in table.entries if pair.target is not None and pair.golden is not None]
    layers = (
        _Layers(table, dumps.target, dumps.golden, {pair.target for pair in both if pair.target}, in_golden=False),
        _Layers(table, dumps.golden, dumps.target, {pair.golden for pair in both if pair.golden}, in_golden=True),
    )
    entries = list(table.entries)
    for number, (pair, key) in enumerate(zip(table.entries, table.keys, strict=True)):
        if pair.target is None or pair.golden is None:
            entries[number] = pair._replace(absence=_absence(key, layers[pair.target is None]))
    return entries


def _absence(key: EntryKey, layers: _Layers) -> Absence | None:
    """Return why an entry of one side means nothing; None where it is a lost layer, a part of one, or a lost gradient.

    ``layers`` are the modules of the side that has the entry.
    """
    if key.recompute:
        return Absence.RECOMPUTED
    if is_module(key) and layers.are_fused(key):
        return Absence.FUSED
    return None if is_module(key) and layers.have_lost(key) else Absence.OTHER_PROGRAM


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


class _Layers:
    """The modules of one side. ``own`` is the dump of that side, ``partnered`` are its entries with a partner."""

    def __init__(self, table: LeafTable, own: Dump, other: Dump, partnered: set[str], *, in_golden: bool) -> None:
        self._table, self._own, self._other, self._partnered = table, own, other, partnered
        self._in_golden = in_golden
        self._fused = table.fused_paths[in_golden]
        self._lost: dict[str, bool] = {}

    def are_fused(self, key: EntryKey) -> bool:
        """Return whether an entry lies in a layer that stands for several layers of the other side, or for a part."""
        path = path_of(key.stem)
        return bool(self._fused) and not self._fused.isdisjoint((path, *_above(path)))

    def have_lost(self, key: EntryKey) -> bool:
        """Return whether an entry without partner is a lost layer, a part of one, or a lost gradient."""
        if self.are_fused(key):
            return False
        path = path_of(key.stem)
        if key.phase != "forward":
            calls = self._alone.get(path)
            if path in self._paired:
                return True
            return any(map(self.have_lost, calls)) if calls else path not in self._around
        if key.name not in self._lost:
            self._lost[key.name] = self._is_lost(key, path)
        return self._lost[key.name]

    def _is_lost(self, key: EntryKey, path: str) -> bool:
        recorded = leaves(key.name, self._own.data[key.name])
        if any(leaf.slot == PARAMETER for leaf in recorded):
            return True
        if path not in self._paired and (path in self._around or self._is_inside_one_call(path)):
            return False
        results = [leaf.raw for leaf in recorded if leaf.slot == OUTPUT and is_tensor(leaf.raw)]
        return not all(map(self._values.contains, results))

    def _is_inside_one_call(self, path: str) -> bool:
        """Return whether the nearest paired module around this one stands for a module that has none inside."""
        partner = next((self._partners[above] for above in _above(path) if above in self._partners), None)
        return partner is not None and partner not in self._with_modules_inside

    @cached_property
    def _partners(self) -> dict[str, str]:
        """Return the paths of modules that have a partner, with the path of that partner."""
        partners: dict[str, str] = {}
        for target, golden, _ in self._table.entries:
            if target is not None and golden is not None and is_module_name(target) and is_module_name(golden):
                own, other = (golden, target) if self._in_golden else (target, golden)
                partners.setdefault(path_of(stem_of(own)), path_of(stem_of(other)))
        return partners

    @cached_property
    def _with_modules_inside(self) -> frozenset[str]:
        """Return the paths of the other side's modules that have modules inside."""
        paths = {path_of(stem_of(name)) for name in self._other.data if is_module_name(name)}
        return frozenset(above for path in paths for above in _above(path))

    @cached_property
    def _paired(self) -> frozenset[str]:
        """Return the paths of modules with an entry that has a partner."""
        modules = (name for name in self._partnered if is_module_name(name))
        return frozenset(path_of(stem_of(name)) for name in modules)

    @cached_property
    def _around(self) -> frozenset[str]:
        """Return the paths around modules that have a partner."""
        return frozenset(above for path in self._paired for above in _above(path))

    @cached_property
    def _alone(self) -> dict[str, list[EntryKey]]:
        """Return the forward calls of each path that have no partner."""
        calls: dict[str, list[EntryKey]] = {}
        for pair, key in zip(self._table.entries, self._table.keys, strict=True):
            own, other = (pair.golden, pair.target) if self._in_golden else (pair.target, pair.golden)
            if own is not None and other is None and is_module(key) and key.phase == "forward" and not key.recompute:
                calls.setdefault(path_of(key.stem), []).append(key)
        return calls

    @cached_property
    def _values(self) -> TensorIndex:
        from msprobe.compare.layer_inference.tensor_signature import TensorIndex  # only for other programs

        return TensorIndex(self._other.data)


def _above(path: str) -> Iterator[str]:
    """Yield the paths of the modules around one, from inside to outside; that of the model itself is empty."""
    while path:
        path = path.rpartition(".")[0]
        yield path


# Phases of one side


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
        f"the {lacking} recorded {_PHASE_TEXTS[phase]}: {count} values of the {other} were not compared"
        for phase, lacking, other, count in _one_sided_phases(entries, keys, rows_per_entry)
    ]


def _one_sided_phases(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], rows_per_entry: Sequence[int]
) -> list[tuple[str, str, str, int]]:
    """Return for each phase of one side: the phase, the side that lacks it, the other side, and its values there."""
    values: Counter[tuple[str, str]] = Counter()
    for pair, key, count in zip(entries, keys, rows_per_entry, strict=True):
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


# Values of paired entries


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


# Operands in another order


class CommutedOperands(Exemption):
    """Pairs the operands of commutative calls by their values."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with the golden operands in the order of the target.

        It stays as it is where no operands are exchanged, or where a mapping pairs single leaves.
        """
        if dumps.policy is Policy.REFERENCE or table.other_entry:
            return table
        return pair_commuted_operands(table)


def pair_commuted_operands(table: LeafTable) -> LeafTable:
    """Return the table with the golden operands of each commutative call exchanged where the values lie crosswise; the
    same table where none do."""
    exchanged = [rows for rows in _perhaps_crosswise(table, _operands(table)) if _lie_crosswise(table, *rows)]
    if not exchanged:
        return table
    golden = list(table.golden)
    for first, second in exchanged:
        golden[first], golden[second] = golden[second], golden[first]
    return replace(table, golden=golden)


def _operands(table: LeafTable) -> list[tuple[int, int]]:
    """Return the rows of both operands of each commutative call of both sides; in backward those of their gradients."""
    found: list[tuple[int, int]] = []
    commutative: dict[str, bool] = {}
    starts, forward, targets, goldens = table.starts.tolist(), Phase.FORWARD.value, table.target, table.golden
    for number in _perhaps_differing(table):
        pair, key = table.entries[number], table.keys[number]
        is_commutative = commutative.get(key.stem)
        if is_commutative is None:
            is_commutative = commutative[key.stem] = _is_commutative(key.stem, across=table.across)
        if not is_commutative or pair.target is None or pair.golden is None:
            continue
        slot, rows = INPUT if key.phase == forward else OUTPUT, range(starts[number], starts[number + 1])
        operands = [row for row in rows if slot in ((targets[row] or _NO_LEAF)[1], (goldens[row] or _NO_LEAF)[1])]
        if len(operands) == 2:
            found.append((operands[0], operands[1]))
    return found


def _perhaps_differing(table: LeafTable) -> list[int]:
    """Return the entries without those whose statistics are all the same on both sides, as arrays tell."""
    plain, unequal = table.float_pairs, np.ones(table.row_count, np.bool_)
    unequal[plain.rows] = (plain.values[:, 0] != plain.values[:, 1]).any(axis=1)
    differing = np.zeros(len(table.entries), np.bool_)
    differing[table.entry_of_row()[unequal]] = True
    return differing.nonzero()[0].tolist()  # type: ignore[no-any-return]


def _perhaps_crosswise(table: LeafTable, operands: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the operands without those that do not lie crosswise as arrays of their statistics tell: nearly all."""
    plain = table.float_pairs
    if not operands or not len(plain.rows):
        return operands
    rows = np.array(operands, np.int64)
    places = np.minimum(plain.rows.searchsorted(rows), len(plain.rows) - 1)
    comparable = np.array([_are_comparable(*pair) for pair in plain.kind_samples], np.bool_)
    known = ((plain.rows[places] == rows) & comparable[plain.kinds[places]]).all(axis=1)
    target, golden = plain.values[places, 0], plain.values[places, 1]
    straight, crosswise = (distances(target, side).sum(axis=1) for side in (golden, golden[:, ::-1]))
    return rows[~known | (crosswise < _CLEARLY_LESS * straight)].tolist()  # type: ignore[no-any-return]


def _are_comparable(target: Any, golden: Any) -> bool:
    """Return whether the statistics of two tensors say how far they are apart: they have one shape, and no checksum."""
    return bool(target["shape"] == golden["shape"] and same_checksums(target, golden) is None)


def _is_commutative(stem: str, *, across: bool) -> bool:
    if not across:  # folding the names of other frameworks takes long to load
        return f"~{stem.rpartition('.')[2].strip('_')}" in _COMMUTATIVE
    from msprobe.compare.layer_inference.name_folding import operator

    return operator(stem) in _COMMUTATIVE


def _lie_crosswise(table: LeafTable, first: int, second: int) -> bool:
    target, golden = table.target[first], table.golden[first]
    if target is not None and golden is not None and target.raw == golden.raw:
        return False
    straight = _distance(table, first, first) + _distance(table, second, second)
    return straight > 0 and _distance(table, first, second) + _distance(table, second, first) < _CLEARLY_LESS * straight


def _distance(table: LeafTable, target_row: int, golden_row: int) -> float:
    """Return how far the statistics of two operands are apart (see ``likeness.distance``); infinite where they cannot
    be compared."""
    target, golden = table.target[target_row], table.golden[golden_row]
    if target is None or golden is None or not is_tensor(target.raw) or not is_tensor(golden.raw):
        return math.inf
    if target.raw["shape"] != golden.raw["shape"]:
        return math.inf
    by_checksum = same_checksums(target.raw, golden.raw)
    if by_checksum is not None:
        return 0.0 if by_checksum else math.inf
    return distance(target.raw, golden.raw)
