"""Which call of a dump made a value: results are found again by their statistics.

Nothing records where a tensor goes. But a tensor that one call returns and a later one gets has the same statistics
there. Views in between (transpose, reshape) leave no record: they change the shape and the order of the elements, and
neither the extremes nor the norm. So a value is looked up by what no view changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import is_module
from msprobe.compare.records.leaves import as_float
from msprobe.compare.records.likeness import NEAR, recorded_count, same_values
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.core.tensors.projection import KEY

_Signature = tuple[Any, ...]
_DIGEST = "md5"
_COMMON = frozenset({0.0, 1.0, -1.0, math.inf, -math.inf})
"""Tensors that are full of such a number say nothing about where they come from."""


class ValueFlow:
    """Finds the calls of one side by the values that they return.

    Args:
        table: both dumps; entries are numbers in it.
        in_golden: whether the side is the golden run.
        alone: the entries that this side alone has, as far as nothing excuses them.
    """

    def __init__(self, table: LeafTable, *, in_golden: bool, alone: Set[int]) -> None:
        self._table, self.alone = table, alone
        self._leaves = table.golden if in_golden else table.target
        self._makers: dict[_Signature, list[tuple[int, Mapping[str, Any]]]] = {}
        for entry, pair in enumerate(table.entries):
            if pair[in_golden] is not None:
                self._add(entry)

    def _add(self, entry: int) -> None:
        for raw in self.values_of(entry, OUTPUT):
            signature = signature_of(raw)
            if signature is not None:
                self._makers.setdefault(signature, []).append((entry, raw))

    def values_of(self, entry: int, slot: str) -> Iterator[Mapping[str, Any]]:
        """Yield the tensors that this side has in a slot of an entry."""
        for row in self._table.rows_of(entry):
            leaf = self._leaves[row]
            if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw):
                yield leaf.raw

    def maker(self, raw: Any, before: int) -> int | None:
        """Return the entry that made a value, or None where no recorded call did.

        A call that both sides make is preferred: calls that return what they are given (identity, a copy) do not make
        it. Of calls of this side alone that follow each other the first one has made it: the others are the modules
        around it, and copies. Calls that return the elements in the same order come before others.
        """
        signature = signature_of(raw) if is_tensor(raw) else None
        if signature is None:
            return None
        norm = as_float(raw.get("Norm"))
        makers = self._makers.get(signature, ())
        near = [(e, other) for e, other in makers if e < before and _is_near(norm, _norm(other), NEAR * norm)]
        in_order = [entry for entry, other in near if has_same_order(raw, other, norm)]
        candidates = in_order or [entry for entry, _ in near]
        paired = [entry for entry in candidates if entry not in self.alone]
        if paired or not candidates:
            return max(paired, default=None)
        first = candidates[-1]
        for entry in reversed(candidates):
            if not all(between in self.alone for between in range(entry, first)):
                break
            first = entry
        return first

    def is_shown(self, entry: int) -> bool:
        """Return whether a call of both sides gets a value that this entry returns, or what other calls make of it."""
        waiting, visited = [entry], {entry}
        while waiting:
            users = self._users(waiting.pop()) - visited
            if any(user not in self.alone for user in users):
                return True
            visited |= users
            waiting += users
        return False

    def passes_on(self, entry: int) -> bool:
        """Return whether all that an entry returns comes from calls of both sides, as what a wrapper returns does."""
        makers = [self.maker(raw, entry) for raw in self.values_of(entry, OUTPUT)]
        return bool(makers) and all(maker is not None and maker not in self.alone for maker in makers)

    def _users(self, entry: int) -> set[int]:
        """Return the later calls that get a value that this entry returns, and that no call of both sides returns."""
        signatures = {signature_of(raw) for raw in self.values_of(entry, OUTPUT)} - {None}
        users = {user for signature in signatures for user in self._users_by_value.get(signature, ()) if user > entry}
        return {user for user in users if any(self._is_made_alone(raw, signatures, user) for raw in self._inputs(user))}

    def _inputs(self, entry: int) -> Iterator[Mapping[str, Any]]:
        return self.values_of(entry, INPUT)

    def _is_made_alone(self, raw: Mapping[str, Any], signatures: Collection[_Signature | None], user: int) -> bool:
        return signature_of(raw) in signatures and self.maker(raw, user) in self.alone

    @cached_property
    def _users_by_value(self) -> dict[_Signature | None, list[int]]:
        users: dict[_Signature | None, list[int]] = {}
        for entry in range(len(self._table.entries)):
            for raw in self._inputs(entry):
                users.setdefault(signature_of(raw), []).append(entry)
        return users

    def outermost(self, entry: int) -> int:
        """Return the module of this side alone that returns what this entry returns, and gets nothing else than it; the
        entry itself where there is none."""
        values = list(self.values_of(entry, OUTPUT)), list(self._inputs(entry))
        number, outermost = entry + 1, entry
        while number in self.alone and is_module(self._table.keys[number]) and self.returns(number, values[0]):
            inputs = self._inputs(number)
            if all(any(same_values(raw, other) for other in values[1]) for raw in inputs):
                outermost = number
            number += 1
        return outermost

    def enclosing(self, entry: int) -> int:
        """Return the outermost module call of this side alone around an entry; the entry itself where there is none."""
        keys, outermost = self._table.keys, entry
        for number in range(entry + 1, len(keys)):
            if number not in self.alone or keys[number].phase != keys[entry].phase:
                break
            if keys[number].stem == keys[outermost].parent:
                outermost = number
        return outermost

    def repeated(self, entry: int) -> int:
        """Return the outermost module call of this side alone around an entry that is one call more of a module which
        both sides call; the entry itself where there is none."""
        keys, called = self._table.keys, self._called_by_both
        outermost = entry
        for number in range(entry + 1, len(keys)):
            if number not in self.alone or keys[number].phase != keys[entry].phase:
                break
            if keys[number].stem == keys[outermost].parent and keys[number].stem in called:
                outermost = number
        return outermost

    @cached_property
    def _called_by_both(self) -> frozenset[str]:
        entries = zip(self._table.entries, self._table.keys, strict=True)
        return frozenset(key.stem for pair, key in entries if pair.of_both)

    def chain(self, last: int, ends: Collection[int] = ()) -> list[int]:
        """Return the calls of this side alone by which a value came about, ascending.

        Args:
            last: the call that made it.
            ends: calls that are followed back no further.
        """
        chain: set[int] = set()
        waiting = [last]
        while waiting:
            entry = waiting.pop()
            if entry in chain or entry not in self.alone:
                continue
            chain.add(entry)
            if entry in ends:
                continue
            makers = (self.maker(raw, entry) for raw in self._inputs(entry))
            waiting += [maker for maker in makers if maker is not None]
        return sorted(chain)

    def returns(self, entry: int, others: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether an entry returns tensors, and all of them are among ``others``."""
        values = list(self.values_of(entry, OUTPUT))
        return bool(values) and all(any(same_values(raw, other) for other in others) for raw in values)


def _norm(raw: Mapping[str, Any]) -> float:
    return as_float(raw.get("Norm"))


def has_same_order(one: Mapping[str, Any], two: Mapping[str, Any], norm: float) -> bool:
    """Return whether two tensors of equal elements have them in the same order, as the projection tells."""
    left, right = as_float(one.get(KEY)), as_float(two.get(KEY))
    return math.isfinite(left) and _is_near(left, right, NEAR * norm)


def _is_near(one: float, two: float, allowed: float) -> bool:
    return one == two or (one != one and two != two) or abs(one - two) <= allowed


def signature_of(raw: Mapping[str, Any]) -> _Signature | None:
    """Return what no view changes of a tensor; None where that says nothing about where it comes from."""
    digest = raw.get(_DIGEST)
    if digest is not None:  # a damaged dump may hold anything
        return (digest,) if isinstance(digest, str) else None
    largest, smallest = raw.get("Max"), raw.get("Min")
    if not isinstance(largest, (int, float)) or not isinstance(smallest, (int, float)):
        return None
    if largest == smallest and largest in _COMMON:
        return None
    return recorded_count(raw), largest, smallest
