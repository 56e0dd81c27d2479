"""What leaves a step of a pair, and where what is wrong in it arises: looked for once, when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from msprobe.compare.records.entries import parent_of, path_of, phase_of, stem_of
from msprobe.compare.table.table import LeafTable
from msprobe.compare.verdict.sinks import Sinks
from msprobe.compare.verdict.stretch import Stretch, StretchSearch
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.reader import Dump
from msprobe.numerics.verdict import Judged, Measured
from msprobe.trace.trace import Trace


class StepEnd:
    """The end of a step of both runs.

    Args:
        table: both dumps.
        dumps: target and golden run.
        measured: the differences of all rows.
        judged: the verdicts of all rows.
        next_agrees: returns whether the next step computes the same forward; None where that is not known.
    """

    def __init__(
        self,
        table: LeafTable,
        dumps: tuple[Dump, Dump],
        measured: Measured,
        judged: Judged,
        next_agrees: Callable[[], bool] | None = None,
    ) -> None:
        self._table, self._dumps, self._measured, self._judged = table, dumps, measured, judged
        self._next_agrees = next_agrees
        self._stretches: dict[int, Stretch | None] = {}

    @cached_property
    def sinks(self) -> Sinks:
        """What leaves the step."""
        return Sinks(self._table, self._measured, self._judged, self._dumps, self._next_agrees)

    def stretch(self, side: int) -> Stretch | None:
        """Return where what is wrong in the end arises in the target (0), or golden run (1); None where no forward call
        shows it."""
        if side not in self._stretches:
            wrong = ((str(self._table.entries[entry][side]), raw) for entry, raw in self.sinks.wrong(side))
            self._stretches[side] = self._searches[side].run(wrong)
        return self._stretches[side]

    def makers_of(self, call: str, raw: Any, side: int) -> list[str]:
        """Return the calls of a side by which a wrong value comes about that one of its forward calls gets."""
        return self._searches[side].makers_of(call, raw)

    def is_right(self, call: str, side: int = 0) -> bool:
        """Return whether the other run has what a forward call returns, or what is made of it."""
        return self._searches[side].is_right(call)

    def has_twins(self, call: str, side: int = 0) -> bool:
        """Return whether the other run has all that a forward call returns."""
        return self._searches[side].has_twins(call)

    @cached_property
    def traces(self) -> tuple[Trace, Trace]:
        """The forward calls of both runs, with where their values come from. Recomputed calls make nothing new."""
        target, golden = (Trace(dict(self._forward(side)), dump.construct) for side, dump in enumerate(self._dumps))
        return target, golden

    def _forward(self, side: int) -> Iterator[tuple[str, Any]]:
        entries = zip(self._table.entries, self._table.keys, strict=True)
        repeated = {pair[side] for pair, key in entries if key.recompute}
        records = self._dumps[side].data.items()
        return (one for one in records if one[0] not in repeated and phase_of(one[0]) == Phase.FORWARD.value)

    @cached_property
    def _searches(self) -> tuple[StretchSearch, StretchSearch]:
        search = StretchSearch(self._dumps, self.traces, self.sinks.coarsest, self._pairs())
        return search, search.turned()

    def _pairs(self) -> dict[str, str]:
        """Return the entries of the golden run by those of the target. A part of a module is paired also where it has
        another class: by its name, in modules that are paired."""
        both = (pair for pair in self._table.entries if pair.of_both)
        pairs = {str(pair.target): str(pair.golden) for pair in both}
        lacking = [str(pair.golden) for pair in self._table.entries if pair.target is None]
        golden = {self._place(1, name): name for name in lacking}
        alone = [str(pair.target) for pair in self._table.entries if pair.golden is None]
        for own in reversed(alone):  # a module is recorded behind its parts
            place = self._place(0, own)
            other = None if place is None else golden.get((pairs.get(place[0] or ""), place[1], place[2]))
            if other is not None:
                pairs[own] = other
        return pairs

    def _place(self, side: int, name: str) -> tuple[str | None, str, str] | None:
        """Return the module around that of an entry, the name of it there, and which call of it this is."""
        if not is_module_name(name):
            return None
        stem = stem_of(name)
        return parent_of(self._dumps[side].construct, name), path_of(stem).rpartition(".")[2], name[len(stem) :]
