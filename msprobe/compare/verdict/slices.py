"""The calls that a wrong result came from: its backward slice, and where the slice begins to be wrong.

A value without twin that leaves a step was made by a call, from inputs that some call made. Following back those that
have no twin ends at the *frontier*: calls whose inputs have twins, and whose results have none. There the difference
arises. What differs elsewhere, and is not in the slice, is another way to compute something that is right in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import is_module
from msprobe.compare.verdict.sinks import Sinks
from msprobe.core.store.record_walk import INPUT, OUTPUT
from msprobe.trace.leaves import element_count
from msprobe.trace.likeness import is_float, is_part
from msprobe.trace.values import signature_of

_Raw = Mapping[str, Any]


class Slice:
    """The backward slice of the wrong results of one side.

    Args:
        sinks: what leaves the step.
        side: 0 for the target, 1 for the golden run.

    Attributes:
        calls: the entries of calls that made values without twin.
        frontier: those of them whose inputs all have twins.
        complete: whether every value without twin was made by a call that is recorded, or is one of the frontier.
    """

    def __init__(self, sinks: Sinks, side: int) -> None:
        self._sinks, self._side = sinks, side
        self.calls: set[int] = set()
        self.frontier: set[int] = set()
        self.complete = True
        for entry, raw in sinks.wrong(side):
            self._follow(raw, entry + 1)

    def _follow(self, raw: _Raw, before: int) -> None:
        waiting = [(raw, before)]
        while waiting:
            raw, before = waiting.pop()
            maker = self._maker(raw, before)
            if maker is None and not (is_float(raw) and element_count(raw) > 1):
                continue  # data, positions, flags, constants: they are in another form, or no result shows them
            if maker is None:
                self.complete = False
                continue
            if maker in self.calls:
                continue
            self.calls.add(maker)
            wrong = [value for row, value in self._sinks.leaves(self._side, maker, INPUT) if self._is_wrong(row, value)]
            if not wrong:
                self.frontier.add(maker)
            waiting += [(value, maker) for value in wrong]

    def _is_wrong(self, row: int, raw: _Raw) -> bool:
        return not self._sinks.has_twin(self._side, row, raw)

    def _maker(self, raw: _Raw, before: int) -> int | None:
        """Return the last call before an entry that returns a value, or what the value may be a part of: slices and
        copies of them leave no record."""
        makers = self._makers.get(signature_of(raw), ())
        maker = next((entry for entry in reversed(makers) if entry < before), None)
        if maker is not None or not is_float(raw):
            return maker
        wholes = (one for one in reversed(self._results) if one[0] < before)
        return next((entry for entry, whole in wholes if _may_be_part(raw, whole)), None)

    @cached_property
    def _results(self) -> list[tuple[int, _Raw]]:
        """The results of calls that call no other one, in the order of execution."""
        return [(entry, raw) for entry in self._innermost() for _, raw in self._sinks.leaves(self._side, entry, OUTPUT)]

    @cached_property
    def _makers(self) -> dict[Any, list[int]]:
        """The calls that call no other one, by what they return."""
        makers: dict[Any, list[int]] = {}
        for entry, raw in self._results:
            makers.setdefault(signature_of(raw), []).append(entry)
        makers.pop(None, None)
        return makers

    def _innermost(self) -> Iterator[int]:
        entries = list(self._sinks.forward(self._side))
        around = {self._sinks.key(entry).parent for entry in entries}
        for entry in entries:
            key = self._sinks.key(entry)
            if not is_module(key) or key.stem not in around:
                yield entry


def _may_be_part(raw: _Raw, whole: _Raw) -> bool:
    """Return whether a tensor may be some rows of another one, or one of the equal pieces that it is split into."""
    has_its_rows = list(raw["shape"])[-1:] == list(whole["shape"])[-1:]
    is_piece = element_count(whole) % max(element_count(raw), 1.0) == 0.0
    return (has_its_rows or is_piece) and is_part(raw, whole)
