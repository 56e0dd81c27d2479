"""Which entries of one side alone are lost, and which are other code, where the sides are different programs.

A function that only one of two programs calls is no difference: the other one computes the same in other words. A
module is more than words. One that holds parameters, or has a result that the other side has nowhere, is missing there.
Not lost are

- modules that are said or found to be fused, with all below them;
- modules without own parameters around others that do have partners (a wrapper);
- modules without own parameters whose results are among the values of the other side (an activation as a function).

A gradient of a module that has a partner is lost when only one side records it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.alignment.protocol import Fused, Side
from msprobe.compare.items import OUTPUT, PARAMETER, is_tensor, leaves
from msprobe.compare.pairs import EntryKey, EntryPair, path_of
from msprobe.compare.same_values import SameValues

if TYPE_CHECKING:
    from msprobe.compare.table import LeafTable


def other_code(
    entries: Sequence[EntryPair], keys: Sequence[EntryKey], sides: tuple[Side, Side], fused: Fused
) -> list[EntryPair]:
    """The entries, benign where what only one side has is other code. ``keys`` has the key of each entry, ``sides`` are
    target and golden run, and ``fused`` are the paths of their fused modules (see ``Alignment``)."""
    both = [pair for pair in entries if pair.target is not None and pair.golden is not None]
    target, golden = sides
    layers = (
        _Layers(target, golden, {pair.target for pair in both}, fused[0]),
        _Layers(golden, target, {pair.golden for pair in both}, fused[1]),
    )
    found = list(entries)
    for number, (pair, key) in enumerate(zip(entries, keys, strict=True)):
        if pair.target is None or pair.golden is None:
            lost = is_module(key) and not key.recompute and layers[pair.target is None].have_lost(key)
            found[number] = pair._replace(benign=not lost)
    return found


def functions_alone(table: LeafTable) -> list[str]:
    """A sentence for each side with functions of its own, where no modules are recorded that could be lost."""
    if not table.loose or any(map(is_module, table.keys)):
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
    """The modules of one side. ``partnered`` are its entries that have a partner, ``fused`` paths of fused modules."""

    def __init__(self, own: Side, other: Side, partnered: set[str | None], fused: frozenset[str]) -> None:
        self._own, self._other, self._partnered, self._fused = own, other, partnered, fused
        self._known: dict[str, bool] = {}

    def have_lost(self, key: EntryKey) -> bool:
        """Whether an entry without partner is a lost layer, a part of one, or a lost gradient."""
        path = path_of(key.stem)
        if self._fused and not self._fused.isdisjoint((path, *_above(path))):
            return False
        if key.phase != "forward":
            calls = self._alone.get(path)
            if path in self._paired:
                return True
            return any(map(self.have_lost, calls)) if calls else path not in self._around
        if key.name not in self._known:
            self._known[key.name] = self._is_lost(key, path)
        return self._known[key.name]

    def _is_lost(self, key: EntryKey, path: str) -> bool:
        found = leaves(key.name, self._own.dump.data[key.name])
        if any(leaf.slot == PARAMETER for leaf in found):
            return True
        if path not in self._paired and path in self._around:
            return False
        results = [leaf.raw for leaf in found if leaf.slot == OUTPUT and is_tensor(leaf.raw)]
        return not all(map(self._values.have, results))

    @cached_property
    def _paired(self) -> frozenset[str]:
        """Paths of modules with an entry that has a partner."""
        return frozenset(path_of(key.stem) for key in self._own.keys if is_module(key) and key.name in self._partnered)

    @cached_property
    def _around(self) -> frozenset[str]:
        """Paths around modules that have a partner."""
        return frozenset(above for path in self._paired for above in _above(path))

    @cached_property
    def _alone(self) -> dict[str, list[EntryKey]]:
        """The forward calls without partner of each path."""
        found: dict[str, list[EntryKey]] = {}
        for key in self._own.keys:
            if is_module(key) and key.phase == "forward" and key.name not in self._partnered and not key.recompute:
                found.setdefault(path_of(key.stem), []).append(key)
        return found

    @cached_property
    def _values(self) -> SameValues:
        return SameValues(self._other.dump.data)


def _above(path: str) -> Iterator[str]:
    """The paths of the modules around one, the model's own (empty) last."""
    while path:
        path = path.rpartition(".")[0]
        yield path
