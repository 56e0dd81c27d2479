"""Every wrong module of a run in which modules were fed the inputs of a good one (``load`` without ``modules``).

Errors do not carry on there, so each call is judged by itself: it is wrong where what it was given agrees and what it
makes does not. A module around a wrong one is wrong for that reason, and is not named. What lies between modules is
replaced before the next module sees it; how far the live input was from what the module was fed tells of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msprobe.analyze.compared_entries import ComparedEntries
from msprobe.analyze.first_divergence import Divergence
from msprobe.compare.comparison import Comparison
from msprobe.compare.parallel.merged_dump import optimizer_gradients_of
from msprobe.compare.records.call_source import module_text
from msprobe.compare.rows.summary import FirstDivergence, KindText
from msprobe.core.naming import ModuleName, NameSyntaxError, parse_entry
from msprobe.core.store.record_walk import FED
from msprobe.numerics.verdict import Role, RowKind
from msprobe.trace.leaves import as_float

_TIMES = 10.0
"""What a live input may be apart from the right one, in units of the tolerance of its row: the code between two modules
rounds too, and its tolerance is not known."""
_BY_ITSELF = "what it was given agrees"


def wrong_modules(comparison: Comparison) -> list[Divergence]:
    """Return each wrong module of a fed run in the order of execution, by its first wrong call."""
    search = _Search(comparison)
    return [Divergence(entry, search.describe(entry, between)) for entry, between in search.run()]


def has_other_parameters(comparison: Comparison) -> bool:
    """Return whether a parameter differs."""
    differing = comparison.judged.kind > RowKind.UNCHECKED
    return bool((differing & (comparison.measured.role == Role.PARAMETER)).any())


class _Search(ComparedEntries):
    """Searches one comparison; entries are numbers in its table."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        self._reduced = optimizer_gradients_of(comparison.target)
        self._given_wrong = {
            key.stem
            for entry, key in enumerate(self.table.keys)
            if key.phase == "forward" and self.differing_rows(entry, Role.INPUT)
        }
        self._parents = [next(self.ancestors(entry), None) for entry in range(len(self.table.entries))]

    def run(self) -> Iterator[tuple[int, bool]]:
        """Yield the first wrong entry of each module, and whether it is the code before the call that is wrong."""
        diverging = [int(entry) for entry in self.comparison.row_levels.diverging.nonzero()[0]]
        wrong = [entry for entry in diverging if self._is_wrong(entry)]
        if any(self.name(entry) not in self._reduced for entry in diverging):
            wrong = [entry for entry in wrong if self.name(entry) not in self._reduced]
        spoilt = {_path(self.name(entry)) for entry in diverging if self._makes_others_wrong(entry)}
        inner = [entry for entry in wrong if not any(_is_inside(path, _path(self.name(entry))) for path in spoilt)]
        named: set[str] = set()
        for entry, between in sorted([*((entry, False) for entry in inner), *((e, True) for e in self._between())]):
            path = _path(self.name(entry))
            if path not in named:
                named.add(path)
                yield entry, between

    def describe(self, entry: int, between: bool) -> FirstDivergence:
        """Describe a wrong call, or the code that makes its input."""
        if not between:
            rows = self.differing_rows(entry, Role.PARAMETER) or self.differing_rows(entry)
            if rows:
                return self.result(entry, rows[0], self.module(entry), _BY_ITSELF)
            golden_only = self.table.entries[entry].target is None
            kind: KindText = "missing_in_target" if golden_only else "missing_in_golden"
            return self.build(entry, None, kind, f"only the {'golden run' if golden_only else 'target'} has it", None)
        parent = self._parents[entry]
        where = module_text(parent) if parent is not None else None
        distance = max(self._distances(entry), default=0.0)
        text = f"what it would have been given is {distance:.2g} of its scale apart; no module before it is wrong"
        return self.build(entry, None, "value", text, where)

    def _is_wrong(self, entry: int) -> bool:
        """Return whether an entry is wrong although what it was given agrees."""
        if self.differing_rows(entry, Role.INPUT) or self.table.keys[entry].stem in self._given_wrong:
            return False
        depends = int(self.comparison.measured.depends[entry])
        gradient = self.table.keys[entry].phase == "parameters_grad" and depends >= 0
        return not (gradient and self.differing_rows(depends, Role.INPUT))

    def _makes_others_wrong(self, entry: int) -> bool:
        """Return whether an entry explains that the modules around it are wrong."""
        in_pass = self.table.keys[entry].phase in ("forward", "backward")
        return in_pass and bool(self.differing_rows(entry, Role.RESULT, Role.PARAMETER))

    def _between(self) -> Iterator[int]:
        """Yield the calls whose live input was wrong although no call before them in their module is wrong."""
        spoilt: set[str | None] = set()
        for entry, key in enumerate(self.table.keys):
            parent = self._parents[entry]
            if key.phase != "forward":
                continue
            if self.differing_rows(entry, Role.RESULT):
                spoilt.add(parent)
            elif parent not in spoilt and any(self._is_far(row) for row in self.table.rows_of(entry)):
                spoilt.add(parent)
                yield entry

    def _is_far(self, row: int) -> bool:
        distance = self._distance(row)
        return distance > _TIMES * max(float(self.comparison.judged.tolerance[row]), 0.0)

    def _distances(self, entry: int) -> list[float]:
        return [self._distance(row) for row in self.table.rows_of(entry)]

    def _distance(self, row: int) -> float:
        """Return how far the live input of a row was from what the module was fed; 0 where it was not fed."""
        leaf = self.table.target[row]
        distance = as_float(leaf.raw.get(FED) if leaf is not None and isinstance(leaf.raw, dict) else None)
        return 0.0 if math.isnan(distance) else distance


def _path(name: str) -> str:
    try:
        entry = parse_entry(name)
    except NameSyntaxError:
        return name
    return entry.path if isinstance(entry, ModuleName) else name


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith(f"{outer}.")
