"""Two different programs: which entries of one side alone are lost, and which are other code.

A function that only one of two programs calls is no difference: the other program computes the same in another way. A
module is more than a way of writing. A module that holds parameters, or whose result the other side has nowhere, is
lost when only one side has it. These modules are not lost:

- fused modules, as a mapping or the inference says, with all modules below them;
- modules without own parameters around modules that have partners (a wrapper);
- modules without own parameters whose results are among the values of the other side (an activation as a function).

A gradient of a module that has a partner is lost when only one side records it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.items import OUTPUT, PARAMETER, is_tensor, leaves
from msprobe.compare.lone_direction import missing_phase_notes, missing_phases
from msprobe.compare.loose import relax_kinds
from msprobe.compare.pairs import EntryKey, EntryPair, path_of, stem_of
from msprobe.compare.same_values import TensorIndex
from msprobe.compare.table import LeafTable
from msprobe.core.naming.model import MODULE_PREFIXES
from msprobe.core.store.reader import Dump
from msprobe.numerics.verdict import Ints


class OtherProgram(Exemption):
    """Excuses what only one of two different programs does in other words, and tells what that leaves unjudged."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with every entry of one side that is other code marked as benign."""
        if not table.loose:
            return table
        entries = excuse_other_code(table, dumps)
        return replace(table, entries=missing_phases(entries, table.keys, table.row_counts()))

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """See ``relax_kinds``."""
        if table.loose:
            relax_kinds(table, kinds)

    def notes(self, table: LeafTable) -> list[str]:
        """Return sentences about phases that one side lacks, and about functions that no module stands for."""
        if not table.loose:
            return []
        return missing_phase_notes(table.entries, table.keys, table.row_counts()) + _unjudged_functions(table)


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
            lost = is_module(key) and not key.recompute and layers[pair.target is None].have_lost(key)
            entries[number] = pair._replace(benign=not lost)
    return entries


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

    def have_lost(self, key: EntryKey) -> bool:
        """Return whether an entry without partner is a lost layer, a part of one, or a lost gradient."""
        path = path_of(key.stem)
        if self._fused and not self._fused.isdisjoint((path, *_above(path))):
            return False
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
        if path not in self._paired and path in self._around:
            return False
        results = [leaf.raw for leaf in recorded if leaf.slot == OUTPUT and is_tensor(leaf.raw)]
        return not all(map(self._values.contains, results))

    @cached_property
    def _paired(self) -> frozenset[str]:
        """Paths of modules with an entry that has a partner."""
        modules = (name for name in self._partnered if name.partition(".")[0] in MODULE_PREFIXES)
        return frozenset(path_of(stem_of(name)) for name in modules)

    @cached_property
    def _around(self) -> frozenset[str]:
        """Paths around modules that have a partner."""
        return frozenset(above for path in self._paired for above in _above(path))

    @cached_property
    def _alone(self) -> dict[str, list[EntryKey]]:
        """The forward calls of each path that have no partner."""
        calls: dict[str, list[EntryKey]] = {}
        for pair, key in zip(self._table.entries, self._table.keys, strict=True):
            own, other = (pair.golden, pair.target) if self._in_golden else (pair.target, pair.golden)
            if own is not None and other is None and is_module(key) and key.phase == "forward" and not key.recompute:
                calls.setdefault(path_of(key.stem), []).append(key)
        return calls

    @cached_property
    def _values(self) -> TensorIndex:
        return TensorIndex(self._other.data)


def _above(path: str) -> Iterator[str]:
    """Yield the paths of the modules around one, from inside to outside; that of the model itself is empty."""
    while path:
        path = path.rpartition(".")[0]
        yield path
