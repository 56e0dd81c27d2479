"""Which call of a side made a value, of those that both sides make and those that it makes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import is_module
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.record_walk import INPUT, OUTPUT, is_tensor
from msprobe.trace.likeness import same_values
from msprobe.trace.values import Results, Signature, signature_of


class ValueFlow:
    """Finds the calls of one side by the values that they return.

    Args:
        table: both dumps; entries are numbers in it.
        in_golden: whether the side is the golden run.
        alone: the entries that this side alone has, as far as nothing excuses them.
    """

    def __init__(self, table: LeafTable, *, in_golden: bool, alone: Set[int]) -> None:
        self._table, self.alone = table, alone
        self._side = int(in_golden)
        entries = (entry for entry, pair in enumerate(table.entries) if pair[in_golden] is not None)
        self._results = Results(
            ((entry, raw) for entry in entries for raw in self.values_of(entry, OUTPUT)), self._inputs
        )
        self._shown: dict[int, bool] = {}
        self._users_of: dict[int, Set[int]] = {}
        self._given_alone: dict[int, Set[Signature | None]] = {}

    def values_of(self, entry: int, slot: str) -> Iterator[Mapping[str, Any]]:
        """Return the tensors that this side has in a slot of an entry."""
        return (raw for _, raw in self._table.values(self._side, entry, slot))

    def maker(self, raw: Any, before: int) -> int | None:
        """Return the entry that made a value, or None where no recorded call did.

        A call that both sides make is preferred: calls that return what they are given (identity, a copy) do not make
        it. Of calls of this side alone that follow each other the first one has made it: the others are the modules
        around it, and copies. Calls that return the elements in the same order come before others.
        """
        candidates = self._results.same(raw, before) if is_tensor(raw) else []
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
        waiting = [entry]
        while waiting:
            users = self._users(waiting[-1])  # all of them are later calls
            unknown = [user for user in users if user in self.alone and user not in self._shown]
            shown = any(user not in self.alone or self._shown.get(user, False) for user in users)
            if shown or not unknown:
                self._shown[waiting.pop()] = shown
            else:
                waiting.append(unknown[0])
        return self._shown[entry]

    def passes_on(self, entry: int) -> bool:
        """Return whether all that an entry returns comes from calls of both sides, as what a wrapper returns does."""
        makers = [self.maker(raw, entry) for raw in self.values_of(entry, OUTPUT)]
        return bool(makers) and all(maker is not None and maker not in self.alone for maker in makers)

    def _users(self, entry: int) -> Set[int]:
        """Return the later calls that get a value that this entry returns, and that no call of both sides returns."""
        if entry not in self._users_of:
            signatures = {signature_of(raw) for raw in self.values_of(entry, OUTPUT)} - {None}
            users = {user for one in signatures for user in self._users_by_value.get(one, ()) if user > entry}
            self._users_of[entry] = {user for user in users if not signatures.isdisjoint(self._made_alone(user))}
        return self._users_of[entry]

    def _made_alone(self, user: int) -> Set[Signature | None]:
        """Return the values that a call gets of calls of this side alone."""
        if user not in self._given_alone:
            raws = self._inputs(user)
            self._given_alone[user] = {signature_of(raw) for raw in raws if self.maker(raw, user) in self.alone}
        return self._given_alone[user]

    def _inputs(self, entry: int) -> Iterator[Mapping[str, Any]]:
        return self.values_of(entry, INPUT)

    @cached_property
    def _users_by_value(self) -> dict[Signature | None, list[int]]:
        users: dict[Signature | None, list[int]] = {}
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

    def chain(self, last: int) -> list[int]:
        """Return the calls of this side alone by which a value came about that the call ``last`` made, ascending."""
        chain: set[int] = set()
        waiting = [last]
        while waiting:
            entry = waiting.pop()
            if entry in chain or entry not in self.alone:
                continue
            chain.add(entry)
            makers = (self.maker(raw, entry) for raw in self._inputs(entry))
            waiting += [maker for maker in makers if maker is not None]
        return sorted(chain)

    def returns(self, entry: int, others: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether an entry returns tensors, and all of them are among ``others``."""
        values = list(self.values_of(entry, OUTPUT))
        return bool(values) and all(any(same_values(raw, other) for other in others) for raw in values)
