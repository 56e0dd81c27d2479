"""The entries of one comparison: what differs in them, where they are called, and how one is described.

Entries and rows are numbers in the table of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from msprobe.compare.comparison import Comparison
from msprobe.compare.records.call_source import PairSource, module_text, parent_in_phase, source_of_pair
from msprobe.compare.records.entries import EntryPair
from msprobe.compare.rows.explanations import Reasons, no_gradient
from msprobe.compare.rows.summary import FirstDivergence, KindText, set_place
from msprobe.core.naming.names import Phase, is_module_name
from msprobe.core.store.record_walk import is_tensor
from msprobe.numerics.verdict import Role, RowKind
from msprobe.trace.leaves import slot_of

OWN_ARGUMENT = "an argument of this call"
OTHER_VALUE = "its input differs: "
WITHOUT_GRADIENT = "does not require a gradient"
UNRECORDED = (
    f"{OTHER_VALUE}what makes it leaves no record (a view, a slice, a conversion, numbers of Python, a function of "
    "autograd that the program has written)"
)
UNRECORDED_GRADIENT = (
    f"{OTHER_VALUE}what passes this gradient on leaves no record (a hook, a view, a function of autograd that the "
    "program has written)"
)


class ComparedEntries:
    """Answers questions about single entries, and describes them.

    Attributes:
        comparison: the compared pair.
        table: its table.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.table = comparison, comparison.table
        self._differs = comparison.judged.kind > RowKind.UNCHECKED

    def differing_rows(self, entry: int, *roles: Role) -> list[int]:
        """Return the rows of an entry that differ, of these roles or of all."""
        start, end = int(self.table.starts[entry]), int(self.table.starts[entry + 1])
        role = self.comparison.measured.role
        differing = self._differs[start:end].nonzero()[0] + start
        return [int(row) for row in differing if not roles or role[row] in roles]

    def raw(self, row: int) -> dict[str, Any]:
        """Return what the golden run records of a tensor; an empty dict for anything else."""
        leaf = self.table.golden[row]
        return leaf.raw if leaf is not None and isinstance(leaf.raw, dict) else {}

    def tensor_inputs(self, entry: int) -> list[int]:
        return [row for row in self.differing_rows(entry, Role.INPUT) if not self.is_argument(row)]

    def is_argument(self, row: int) -> bool:
        """Return whether a differing row is an argument that is no tensor, given by both sides or by one."""
        kind = self.comparison.judged.kind[row]
        if kind not in (RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN):
            return bool(kind == RowKind.ARGUMENT)
        leaf = self.table.target[row] or self.table.golden[row]
        return leaf is not None and not is_tensor(leaf.raw)

    def name(self, entry: int) -> str:
        return self.table.entries[entry].name

    def is_module(self, entry: int) -> bool:
        return is_module_name(self.name(entry))

    def entry_by_name(self, entry: int) -> Mapping[str, int]:
        """Return the entries of the side that has this one, by name; the other side may have another call of a name."""
        return self.table.numbers_by_name[self.table.entries[entry].target is None]

    def ancestors(self, entry: int) -> Iterator[str]:
        """Yield the names of the enclosing module entries, from inside to outside."""
        golden_only = self.table.entries[entry].target is None
        construct = (self.comparison.golden if golden_only else self.comparison.target).construct
        numbers = self.entry_by_name(entry)
        name: str | None = self.name(entry)
        visited: set[str] = set()
        while name is not None and name not in visited:
            visited.add(name)
            name = parent_in_phase(construct, name, numbers)
            if name is not None:
                yield name

    def source(self, entry: int) -> PairSource:
        return source_of_pair(self.table.entries[entry], self.comparison.target, self.comparison.golden)

    def module(self, entry: int) -> str | None:
        return self.source(entry).own.module

    def calling_module(self, entry: int) -> str | None:
        """Return the module that makes a call which one run alone makes: what runs around it, not what is called."""
        around = next(self.ancestors(entry), None) if self.is_module(entry) else None
        return self.module(entry) if around is None else module_text(around)

    def result(self, entry: int, row: int, module: str | None, note: str) -> FirstDivergence:
        """Describe the divergence that a row shows; ``note`` says why it is the first one."""
        target, golden = self.table.target[row], self.table.golden[row]
        kind = RowKind(int(self.comparison.judged.kind[row]))
        leaf = target or golden
        slot = leaf and slot_of(leaf)
        together = self.table.together.get(row)
        note += f"; {together.name} taken together" if together is not None else ""
        text = f"{slot or 'value'}: {self.reason(row)}; {note}"
        description = self.build(entry, slot, cast(KindText, kind.name.lower()), text, module)
        add_figures(description, self.comparison, row)
        return description

    def reason(self, row: int) -> str:
        """Return in words what differs in a row."""
        kind = RowKind(int(self.comparison.judged.kind[row]))
        target, golden = self.table.target[row], self.table.golden[row]
        phase = self.table.keys[int(np.searchsorted(self.table.starts, row, side="right")) - 1].phase
        null = kind in (RowKind.MISSING_IN_TARGET, RowKind.MISSING_IN_GOLDEN) and None not in (target, golden)
        if null and phase == Phase.BACKWARD.value:
            return no_gradient(kind)
        reasons = Reasons(self.comparison.measured, self.comparison.judged, slice(row, row + 1))
        return reasons.text(kind, row, target, golden)

    def build(
        self,
        entry: int,
        slot: str | None,
        kind: KindText,
        text: str,
        module: str | None,
        pair: EntryPair | None = None,
    ) -> FirstDivergence:
        """Describe an entry; ``pair`` are its names where the table does not pair them."""
        pair, place = pair or self.table.entries[entry], self.comparison.target.place
        description = FirstDivergence(
            step=place.step,
            rank=place.number if place.kind == "rank" else None,
            target=pair.target,
            golden=pair.golden,
            slot=slot,
            kind=kind,
            reason=text,
            module=module,
            stack=[],
        )
        set_place(description, source_of_pair(pair, self.comparison.target, self.comparison.golden))
        if self.comparison.target.merged:
            from msprobe.compare.parallel.merged_dump import wrong_ranks  # loaded where ranks are merged

            found = wrong_ranks(self.comparison.target, pair.target, slot)
            description.ranks, description.blame = list(found.numbers), found.words
        return description


def without_origin(reason: str) -> str:
    """Return a reason without what it says of the origin of a wrong input, for one that says more of it."""
    return reason.partition(f"; {OTHER_VALUE}")[0]


def add_figures(description: FirstDivergence, comparison: Comparison, row: int) -> None:
    """Fill in the figures of the row that shows the divergence: tolerance, and the elements that differ."""
    judged = comparison.judged
    times = float(judged.times[row])
    if judged.kind[row] == RowKind.VALUE and math.isfinite(times):
        description.tolerance, description.times_tolerance = float(judged.tolerance[row]), times
    difference = comparison.tensors[row] if comparison.tensors is not None else None
    elements = difference.elements if difference is not None else None
    if elements is not None and elements.first is not None and elements.worst is not None:
        description.first_index, description.worst_index = list(elements.first), list(elements.worst)
        description.worst_target, description.worst_golden = repr(elements.target), repr(elements.golden)
