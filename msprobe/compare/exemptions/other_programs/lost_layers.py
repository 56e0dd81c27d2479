"""Which entries of one side are other code, where two different programs are compared, and which are a lost layer.

A function that only one program calls is other code: the other program computes the same in another way. A module that
holds parameters, or whose result the other side has nowhere, is lost when only one side has it. These modules are not
lost: fused modules, as a mapping or the inference says, with all modules below them; modules without own parameters
around modules that have partners (a wrapper); modules without own parameters whose results are among the values of the
other side (an activation as a function), or inside a layer that is one call of the other side (a recurrent layer and
its directions: the result of the layer decides). A gradient of a module that has a partner is lost when only one side
records it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from msprobe.compare.exemptions.protocol import ComparedDumps
from msprobe.compare.records.entries import Absence, EntryKey, EntryPair, is_module, path_of, stem_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import is_module_name
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import OUTPUT, PARAMETER, is_tensor, leaves

if TYPE_CHECKING:
    from msprobe.compare.layer_inference.tensor_signature import TensorIndex


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
