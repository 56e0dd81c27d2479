"""Offsets that a later call removes: what comes of a parameter whose gradient is zero by mathematics.

A bias before a norm changes nothing that the model returns. So its gradient is rounding, of which an optimizer like
Adam makes a full step (``differences.cancelled``), and in the next step all that is computed from the bias differs,
until the norm removes the offset. These values inherit the judgement of the gradient. They are followed on each side,
from the parameter through the calls that get them, to a call of both sides whose results agree up to rounding. What
leads there may differ by as much as the updates can have moved it; so may a state of that call (a running mean). What
leads to no such call is judged as ever, and so is all behind it.

Values are found again by their statistics. Code that leaves no record (``cat``, a slice) makes a value that no call has
returned, one extreme of which is that of a value before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import OF_PARAMETERS, is_module, path_of
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, is_tensor
from msprobe.core.tensors.statistics import LARGEST, SMALLEST
from msprobe.numerics.verdict import Bools, Measured, Role, RowKind, beyond_rounding
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.values import signature_of

_MUCH_CLOSER = 0.1
"""How far results may be apart that remove a difference, relative to it."""
_AMPLIFIED = 16.0
"""How much larger than the update of a parameter what is computed from it may be: it passes weights on its way."""
_OPPOSITE = 2.0  # two updates of opposite signs
_ANYTHING = 1e6  # no difference is as large
_STATISTICS = (LARGEST.name, SMALLEST.name, "Mean")
_Raw = Mapping[str, Any]
_Signature = tuple[Any, ...]


def free_removed_offsets(
    table: LeafTable, measured: Measured, parameters: Set[tuple[str, str]], travelled: Mapping[str, float]
) -> None:
    """Let values differ as far as they follow from ``parameters``, and a later call removes that.

    Args:
        table: both dumps.
        measured: the differences of all rows; ``free`` is raised.
        parameters: parameters whose whole gradient cancelled in an earlier step: the stem of the module, and the name.
        travelled: how far updates have moved the elements of each parameter, in data units, by the whole name.
    """
    if parameters and not table.checksums and not table.loose:
        _Offsets(table, measured, parameters, travelled).free()


class _Side:
    """What follows from the parameters on one side: the calls, and the values that they return.

    Attributes:
        sources: by call that gets what follows from a parameter the calls that made it.
    """

    def __init__(self, table: LeafTable, in_golden: bool) -> None:
        self._leaves = table.golden if in_golden else table.target
        self._table = table
        self.sources: dict[int, set[int]] = {}
        self._made: dict[_Signature, int] = {}
        self._unused: dict[_Signature, int] = {}
        self._extremes: dict[float, int] = {}
        self._returned: set[_Signature] = set()

    def values(self, entry: int, *slots: str) -> Iterator[_Raw]:
        """Yield the tensors that this side has in these slots of an entry."""
        for row in self._table.rows_of(entry):
            leaf = self._leaves[row]
            if leaf is not None and leaf.slot in slots and is_tensor(leaf.raw):
                yield leaf.raw

    def add(self, raw: _Raw, entry: int) -> None:
        """Note that a value follows from a parameter, and that an entry has it first."""
        signature = signature_of(raw)
        if signature is not None and all(map(math.isfinite, _extremes(raw))):
            self._made.setdefault(signature, entry)
            self._unused[signature] = entry
            for extreme in _extremes(raw):
                self._extremes.setdefault(extreme, entry)

    def drop(self, raw: _Raw) -> None:
        """Note that a call returns a value that follows from no parameter."""
        signature = signature_of(raw)
        if signature is not None:
            self._returned.add(signature)
            self._made.pop(signature, None)

    def source(self, raw: _Raw) -> int | None:
        """Return the call from which a value comes that follows from a parameter, None for other values."""
        return self._made.get(signature_of(raw) or ())

    def use(self, entry: int) -> None:
        """Note what an entry gets that follows from a parameter."""
        for raw in self.values(entry, INPUT, PARAMETER):
            signature = signature_of(raw)
            if signature is None or signature in self._returned:
                continue
            if signature in self._made:
                found = {self._made[signature]}
                self._unused.pop(signature, None)
            else:
                found = {self._extremes[extreme] for extreme in _extremes(raw) if extreme in self._extremes}
                for source in found:
                    self.add(raw, source)
                found |= set(self._beside(entry)) if found else set()
            if found:
                self.sources.setdefault(entry, set()).update(found - {entry})

    def _beside(self, entry: int) -> Iterator[int]:
        """Yield the calls directly in the modules around an entry that returned a value which follows from a parameter,
        and which no call has got yet: code that leaves no record puts several of them together."""
        own = f"{path_of(self._table.keys[entry].parent)}."
        for made in self._unused.values():
            if own.startswith(f"{path_of(self._table.keys[made].parent)}."):
                yield made

    def leading_to(self, entries: Set[int]) -> set[int]:
        """Return the calls from which entries have what follows from a parameter."""
        found: set[int] = set()
        waiting = [source for entry in entries for source in self.sources.get(entry, ())]
        while waiting:
            entry = waiting.pop()
            if entry not in found:
                found.add(entry)
                waiting += self.sources.get(entry, ())
        return found


class _Offsets:
    def __init__(
        self, table: LeafTable, measured: Measured, parameters: Set[tuple[str, str]], travelled: Mapping[str, float]
    ) -> None:
        self._table, self._measured, self._parameters = table, measured, parameters
        self._travelled = max((travelled.get(_name(*one), 0.0) for one in parameters), default=0.0)
        self._sides = _Side(table, False), _Side(table, True)
        self._removing: set[int] = set()

    def free(self) -> None:
        """Follow the parameters, and let the values differ that a later call removes."""
        if not self._travelled or not self._moved:
            return
        for number, key in enumerate(self._table.keys):
            if key.phase != Phase.FORWARD.value or key.parent in OF_PARAMETERS:
                continue
            self._begin(number)
            self._follow(number)
        if not self._removing:
            return
        leading = [side.leading_to(self._removing) for side in self._sides]
        for number, pair in enumerate(self._table.entries):
            if pair.of_both and self._table.keys[number].phase == Phase.FORWARD.value:
                self._free_rows(number, leading)

    @cached_property
    def _moved(self) -> dict[tuple[str, str], tuple[_Raw | None, _Raw | None]]:
        """The parameters that differ, with the records of both sides; None where a side does not call the module."""
        found: dict[tuple[str, str], tuple[_Raw | None, _Raw | None]] = {}
        candidates = (self._measured.role == Role.PARAMETER) & (self._beyond | (self._table.lone != 0))
        for row in candidates.nonzero()[0].tolist():
            leaves = self._table.target[row], self._table.golden[row]
            suffix = next(leaf.suffix for leaf in leaves if leaf is not None)
            (entry,) = self._table.entries_of([row])
            key = self._table.keys[entry].stem, suffix.rpartition(".")[2]
            if key in self._parameters:
                target, golden = (None if leaf is None else leaf.raw for leaf in leaves)
                earlier = found.get(key, (None, None))
                found[key] = (earlier[0] or target, earlier[1] or golden)
        return found

    def _begin(self, number: int) -> None:
        """Note where a parameter enters: in its module, or as an input of a function."""
        for (stem, _), pair in self._moved.items():
            for own, other, side in zip(pair, reversed(pair), self._sides, strict=True):
                self._begin_in(side, number, own, other if self._is_around(number, stem) else None)

    def _begin_in(self, side: _Side, number: int, own: _Raw | None, other: _Raw | None) -> None:
        signature = None if own is None else signature_of(own)
        for raw in side.values(number, INPUT, PARAMETER):
            is_same = signature is not None and signature_of(raw) == signature
            if is_same or (own is None and other is not None and self._is_near(other, raw)):
                side.add(raw, number)

    def _is_around(self, number: int, stem: str) -> bool:
        """Return whether an entry lies in a module around another one, or in that one itself."""
        return f"{path_of(stem)}.".startswith(f"{path_of(self._table.keys[number].parent)}.".lstrip("."))

    def _is_near(self, other: _Raw, raw: _Raw) -> bool:
        """Return whether a tensor may be a parameter of the other side, which may have moved."""
        if element_count(other) != element_count(raw) or len([n for n in raw.get("shape") or () if n != 1]) != 1:
            return False
        return _apart(other, raw) <= _OPPOSITE * self._travelled

    def _follow(self, number: int) -> None:
        """Follow values through one entry; those on which both sides agree are followed no longer."""
        if self._is_leaf(number):
            for side in self._sides:
                side.use(number)
        follows = [number in side.sources for side in self._sides]
        if all(follows) and self._removes(number):
            self._removing.add(number)
        agreeing = {id(raw) for raw in self._agreeing_results(number)}
        for side, own in zip(self._sides, follows, strict=True):
            for raw in side.values(number, OUTPUT):
                if id(raw) in agreeing:
                    side.drop(raw)
                elif own:
                    side.add(raw, number)
                elif self._is_leaf(number):
                    side.drop(raw)

    def _agreeing_results(self, number: int) -> Iterator[_Raw]:
        """Yield the results of both sides that agree up to rounding."""
        for row in self._table.rows_of(number):
            both = self._both(row)
            if both is not None and self._measured.role[row] == Role.RESULT and not self._differs(row):
                yield from both

    def _differs(self, row: int) -> bool:
        return bool(self._beyond[row]) or self._measured.kind[row] != RowKind.NONE

    def _is_leaf(self, number: int) -> bool:
        """Return whether an entry is a call inside of which no other one is recorded."""
        return not is_module(self._table.keys[number]) or self._table.keys[number].stem not in self._around

    @cached_property
    def _around(self) -> frozenset[str]:
        return frozenset(key.parent for key in self._table.keys if key.phase == Phase.FORWARD.value)

    def _removes(self, number: int) -> bool:
        """Return whether what follows from a parameter ends in a call of both sides: its results agree, and much better
        than what it gets, or no less than that."""
        rows, measured = self._table.rows_of(number), self._measured
        pairs = [row for row in rows if self._both(row) is not None]
        results = [row for row in pairs if measured.role[row] == Role.RESULT]
        if not self._table.entries[number].of_both or not results or any(map(self._differs, results)):
            return False
        worst = max(float(measured.worst[row]) for row in results)
        differing = [row for row in pairs if self._beyond[row] and measured.role[row] == Role.INPUT]
        return not differing or worst <= _MUCH_CLOSER * max(float(measured.worst[row]) for row in differing)

    @cached_property
    def _beyond(self) -> Bools:
        """Which rows differ by more than rounding."""
        return beyond_rounding(self._measured)

    def _both(self, row: int) -> tuple[_Raw, _Raw] | None:
        target, golden = self._table.target[row], self._table.golden[row]
        if target is None or golden is None or not (is_tensor(target.raw) and is_tensor(golden.raw)):
            return None
        return target.raw, golden.raw

    def _free_rows(self, number: int, leading: list[set[int]]) -> None:
        removes = number in self._removing
        for row in self._table.rows_of(number):
            both = self._both(row)
            if both is None or not self._beyond[row] or self._measured.kind[row] != RowKind.NONE:
                continue
            follows = all(
                side.source(raw) in calls for side, raw, calls in zip(self._sides, both, leading, strict=True)
            )
            is_state = removes and self._measured.role[row] == Role.INPUT
            if (follows or is_state) and self._is_small(both):
                self._measured.free[row] = _ANYTHING

    def _is_small(self, both: tuple[_Raw, _Raw]) -> bool:
        """Return whether the update of a parameter explains the difference of two tensors."""
        return _apart(*both) <= _AMPLIFIED * _OPPOSITE * self._travelled


def _apart(left: _Raw, right: _Raw) -> float:
    return max(abs(as_float(left.get(name)) - as_float(right.get(name))) for name in _STATISTICS)


def _extremes(raw: _Raw) -> list[float]:
    """Return largest and smallest element, as far as they are not common numbers."""
    values = [as_float(raw.get(spec.name)) for spec in (LARGEST, SMALLEST)]
    return [value for value in values if math.isfinite(value) and value not in (0.0, 1.0, -1.0)]


def _name(stem: str, name: str) -> str:
    return f"{path_of(stem)}.{name}".lstrip(".")
