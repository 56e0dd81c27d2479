"""A dump of another tool against one of msprobe: what that tool records differently is a note and no difference.

Such a dump (see ``records.recorder``) has the same calls under the same names, and what both record alike is judged as
ever. ``apply`` prepares three things.

1. Entries that msprobe alone has, because the other tool does not record such calls, are benign. An entry that the
   other tool alone has is a difference, and so is one whose forward call says that no gradient flows on one side.
2. Rows of paired entries: those that mean something else are listed in ``recorded_otherwise``. The gradients that leave
   functions are paired by their values first (``node_gradients``), so that few are left.
3. Single numbers: statistics that only msprobe computes are taken out of a pair, and those that the other tool defines
   otherwise are translated, so that what is left is compared.

A gradient that the other tool lacks is excused only where both runs say of the forward call, by ``requires_grad``, that
it has one: a detached tensor stays a divergence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from msprobe.compare.exemptions.gradients.node_gradients import Cells, pair_node_gradients
from msprobe.compare.exemptions.other_statistics import comparable_pair
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.records.entries import Absence, EntryKey, EntryPair, is_module
from msprobe.compare.records.otherwise import Otherwise
from msprobe.compare.records.recorder import side_of_another_tool
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, Leaf, is_tensor, leaves
from msprobe.numerics.verdict import Ints, Measured, RowKind
from msprobe.trace.leaves import as_float, element_count
from msprobe.trace.likeness import same_record

_SIDES = "target", "golden run"
_FORWARD, _BACKWARD, _GRADIENT = Phase.FORWARD.value, Phase.BACKWARD.value, Phase.PARAMETERS_GRAD.value
_OWN_NAMES = ("VF.", "Torch._foreach_", "Torch._fused_")
_WRITTEN_BY_BOTH = frozenset({
    "int",
    "float",
    "bool",
    "str",
    "slice",
    "ellipsis",
    "torch.Size",
    "torch.memory_format",
    "torch.ProcessGroup",
})
_TEXTS = ("torch.dtype", "torch.device")
_OTHER_SUM = 1e-2
Call = tuple[str, int | None]


class RecordedByOthers(Exemption):
    """Excuses what the tool that recorded one side records differently, where msprobe recorded the other side."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with what the other tool records differently (see the module docstring)."""
        other = side_of_another_tool(dumps.target, dumps.golden)
        if other is None or dumps.policy is Policy.REFERENCE or table.across or table.other_entry:
            return table
        own = (dumps.target, dumps.golden)[1 - other]
        changed = _changed_in_place(own) if dumps.mode is Mode.CHECKSUM else None
        return _Reading(table, dumps.mode, other, changed, own.place.kind.startswith("rank")).table()

    def relax(self, table: LeafTable, kinds: Ints) -> None:
        """Lower the kinds of rows that mean something else."""
        rows = [row for row, reason in table.recorded_otherwise.items() if not reason.is_judged]
        kinds[rows] = RowKind.UNCHECKED

    def meaningless_rows(self, table: LeafTable, measured: Measured) -> Sequence[int]:
        """Return the rows that mean something else."""
        return sorted(row for row, reason in table.recorded_otherwise.items() if not reason.is_judged)

    def remarks(self, table: LeafTable) -> list[str]:
        """Return a sentence for each kind of value that the other tool records differently, with their number."""
        if table.other_tool is None:
            return []
        counts = Counter(table.recorded_otherwise.values())
        side = _SIDES[table.other_tool]
        return [
            f"recorded differently by the tool of the {side}: {kind.value}: {counts[kind]}"
            for kind in Otherwise
            if counts[kind]
        ]


@dataclass(slots=True)
class _Reading:
    """The table of two tools, row by row: what the rows of each entry become.

    Attributes:
        old: the table before.
        mode: what is compared.
        other: the side of the other tool, 0 or 1.
        changed: the checksums that tensors had before a call changed them in place; None where statistics are compared.
        of_a_rank: whether the process was a rank of several.
        otherwise: the reasons, by the new numbers of the rows.
        without_gradient: by forward call the suffixes of tensors of which one side alone says ``requires_grad``.
        own_calls: the stems of forward calls that the other tool recorded.
        means: by module and parameter the sum of the means of the gradients so far.
        last_function: the last entry of a function's forward call that the other tool recorded.
        last_forward: the last entry of a forward call that the other tool recorded.
    """

    old: LeafTable
    mode: Mode
    other: int
    changed: set[str] | None
    of_a_rank: bool
    otherwise: dict[int, Otherwise] = field(default_factory=dict)
    without_gradient: dict[Call, set[str]] = field(default_factory=dict)
    forward: dict[Call, int] = field(default_factory=dict)
    own_calls: set[str] = field(default_factory=set)
    last_function: int = -1
    last_forward: int = -1
    means: dict[tuple[str, str], float] = field(default_factory=dict)
    repeats: bool = False

    def table(self) -> LeafTable:
        """Return the table with the reasons."""
        old = self.old
        self._look_at_calls()
        entries, starts = list(old.entries), [0]
        sides: tuple[list[Leaf | None], list[Leaf | None]] = ([], [])
        for number, (pair, key) in enumerate(zip(old.entries, old.keys, strict=True)):
            cells = [(old.target[row], old.golden[row]) for row in old.rows_of(number)]
            reasons: Mapping[int, Otherwise] = {}
            if pair.target is not None and pair.golden is not None:
                cells, reasons = self._paired(key, cells)
                if number == self.last_forward:
                    reasons = {**reasons, **self._cut_off(cells)}
            elif pair.absence is None and (reason := self._absence(number, pair, key)) is not None:
                entries[number] = pair._replace(absence=Absence.RECORDED_OTHERWISE)
                reasons = dict.fromkeys(range(len(cells)), reason)
            self.otherwise.update({starts[-1] + row: reason for row, reason in reasons.items()})
            for side, column in enumerate(sides):
                column.extend(cell[side] for cell in cells)
            starts.append(len(sides[0]))
        return replace(
            old,
            entries=entries,
            target=sides[0],
            golden=sides[1],
            starts=np.array(starts, np.int64),
            recorded_otherwise=self.otherwise,
            other_tool=self.other,
        )

    def _look_at_calls(self) -> None:
        for number, (pair, key) in enumerate(zip(self.old.entries, self.old.keys, strict=True)):
            if key.phase != _FORWARD:
                continue
            if pair[self.other] is not None:
                self.own_calls.add(key.stem)
                self.repeats = self.repeats or key.recompute
                self.last_forward = number
                if not is_module(key):
                    self.last_function = number
            if pair.target is not None and pair.golden is not None:
                self.forward[key.stem, key.call] = number
                self.without_gradient[key.stem, key.call] = self._differing_flags(number)

    def _cut_off(self, cells: Cells) -> dict[int, Otherwise]:
        """Return the results of a call of which the other tool recorded the arguments alone."""
        results = [row for row, cell in enumerate(cells) if (cell[0] or cell[1]).slot in (OUTPUT, PARAMETER)]  # type: ignore[union-attr]
        if any(cells[row][self.other] is not None for row in results):
            return {}
        return dict.fromkeys(results, Otherwise.CUT_OFF)

    def _differing_flags(self, number: int) -> set[str]:
        return {
            left.suffix
            for row in self.old.rows_of(number)
            if (left := self.old.target[row]) is not None
            and (right := self.old.golden[row]) is not None
            and is_tensor(left.raw)
            and is_tensor(right.raw)
            and left.raw.get("requires_grad", False) != right.raw.get("requires_grad", False)
        }

    def _absence(self, number: int, pair: EntryPair, key: EntryKey) -> Otherwise | None:
        """Return why the other tool does not record this call; None where it would have."""
        if pair[self.other] is not None:
            return None
        call = key.stem, key.call
        if key.phase == _GRADIENT:
            return Otherwise.PARAMETER_GRADIENTS if key.stem not in self.own_calls else None
        if key.stem.startswith(_OWN_NAMES) and key.stem not in self.own_calls:
            return Otherwise.CALLS
        if key.phase == _BACKWARD:
            paired = call in self.forward and not self.without_gradient[call]
            return Otherwise.BACKWARD_CALLS if paired else None
        if self.repeats and number > self.last_function and not is_module(key):
            return Otherwise.LATER_CALLS
        return None

    def _paired(self, key: EntryKey, cells: Cells) -> tuple[Cells, Mapping[int, Otherwise]]:
        """Return the rows of a pair of entries, and the reasons of those that mean something else."""
        reasons: dict[int, Otherwise] = {}
        if key.phase == _BACKWARD:
            flags = self.without_gradient.get((key.stem, key.call), set())
            if is_module(key):
                cells, reasons = self._module_gradients(key, cells, flags)
            else:
                cells, reasons = pair_node_gradients(
                    key, cells, self.other, flags, by_statistics=self.mode is Mode.STATISTICS
                )
        elif key.phase == _FORWARD:
            reasons = self._arguments(key, cells)
        elif key.phase == _GRADIENT:
            reasons = self._summed(key, cells)
        for row, (left, right) in enumerate(cells):
            if row in reasons:
                cells[row] = _without_null(left), _without_null(right)
            if row in reasons or left is None or right is None or not (is_tensor(left.raw) and is_tensor(right.raw)):
                continue
            found = comparable_pair((left.raw, right.raw), self.other, changed=self.changed)
            if found.reason is not None:
                reasons[row] = found.reason
            if found.raw is not None:
                cells[row] = left._replace(raw=found.raw[0]), right._replace(raw=found.raw[1])
        return cells, reasons

    def _arguments(self, key: EntryKey, cells: Cells) -> dict[int, Otherwise]:
        """Return the arguments that the other tool writes as null, and the buffers of communication."""
        reasons = {}
        for row, cell in enumerate(cells):
            own, theirs = cell[1 - self.other], cell[self.other]
            given = None if theirs is None else theirs.raw
            if own is None or own.slot not in (INPUT, OUTPUT):
                continue
            if own.raw is None and is_tensor(given) and key.stem.startswith("Distributed."):
                reasons[row] = Otherwise.BUFFERS
            elif own.raw is None and own.slot == OUTPUT and given is not None and key.stem.startswith("Tensor.__"):
                reasons[row] = Otherwise.ARGUMENTS  # what Python makes of NotImplemented
            elif _is_written_by_msprobe_alone(own.raw, given):
                reasons[row] = Otherwise.ARGUMENTS
        return reasons

    def _summed(self, key: EntryKey, cells: Cells) -> dict[int, Otherwise]:
        """Return the gradients of parameters of which the other tool has the sum over micro batches, as the means tell:
        the mean of a sum is the sum of the means.

        On a rank of several what was there before may be the mean over the ranks (data parallelism averages after each
        backward pass), which this rank alone does not tell.
        """
        reasons = {}
        for row, cell in enumerate(cells):
            own, theirs = cell[1 - self.other], cell[self.other]
            if own is None or theirs is None or not (is_tensor(own.raw) and is_tensor(theirs.raw)):
                continue
            so_far = self.means.get((key.stem, own.suffix), 0.0) + as_float(own.raw.get("Mean"))
            self.means[key.stem, own.suffix] = so_far
            if not key.call or same_record(own.raw, theirs.raw):
                continue
            size = as_float(theirs.raw.get("Norm")) / math.sqrt(max(element_count(theirs.raw), 1.0))
            differs = abs(so_far - as_float(theirs.raw.get("Mean"))) > _OTHER_SUM * size  # not without any mean
            if self.of_a_rank or not differs:
                reasons[row] = Otherwise.SUMMED_GRADIENTS
        return reasons

    def _module_gradients(self, key: EntryKey, cells: Cells, flags: set[str]) -> tuple[Cells, dict[int, Otherwise]]:
        """Return the rows of a module's backward call; no gradient and a null are the same."""
        rows, reasons = list(cells), dict[int, Otherwise]()
        call = self.forward.get((key.stem, key.call))
        unclear = set() if call is None else self._unclear_slots(call, cells)
        for row, cell in enumerate(cells):
            leaf = cell[0] or cell[1]
            if leaf is None:
                continue
            if all(one is None or one.raw is None for one in cell):
                nothing = leaf._replace(raw=None)
                rows[row] = (nothing, nothing)
            elif _in_forward(leaf) in flags or _are_equal(cell):
                continue
            elif leaf.slot in unclear or (cell[self.other] is None and _is_of_keyword(leaf)):
                reasons[row] = Otherwise.MODULE_GRADIENTS
        return rows, reasons

    def _unclear_slots(self, call: int, cells: Cells) -> set[str]:
        """Return the slots of a module's backward call, after this forward call, in which the tools record other
        gradients: of several results, and of arguments if one tensor is given twice."""
        slots = {INPUT} if len(self._tensors(call, OUTPUT)) > 1 else set()
        divided = any(
            own is not None and own.raw is None and theirs is not None and theirs.raw is not None and own.slot == OUTPUT
            for own, theirs in ((cell[1 - self.other], cell[self.other]) for cell in cells)
        )
        if divided and self._is_given_twice(call):
            slots.add(OUTPUT)
        return slots

    def _tensors(self, number: int, slot: str) -> list[Any]:
        side = (self.old.target, self.old.golden)[1 - self.other]
        found = (side[row] for row in self.old.rows_of(number))
        return [leaf.raw for leaf in found if leaf is not None and leaf.slot == slot and is_tensor(leaf.raw)]

    def _is_given_twice(self, number: int) -> bool:
        """Return whether two inputs of a call are one tensor, as far as their numbers tell."""
        numbers = [
            tuple(str(raw.get(name)) for name in ("shape", "Max", "Min", "Mean", "Norm", "md5"))
            for raw in self._tensors(number, INPUT)
        ]
        return len(set(numbers)) < len(numbers)


def _in_forward(leaf: Leaf) -> str:
    """Return the suffix that the tensor has in the forward call whose gradient this is."""
    if leaf.slot == INPUT:
        return leaf.suffix.replace(".input.", ".output.", 1)
    return leaf.suffix.replace(".output.", ".input.", 1)


def _is_written_by_msprobe_alone(raw: Any, given: Any) -> bool:
    """Return whether the other tool writes null for an argument, or ``given``, the text of a tensor."""
    if is_tensor(raw):
        return type(given) is dict and given.get("type") in _TEXTS
    return given is None and type(raw) is dict and raw.get("type") not in _WRITTEN_BY_BOTH


def _without_null(leaf: Leaf | None) -> Leaf | None:
    """Return the leaf, or None for a null: a value that is absent and one that is null are the same."""
    return None if leaf is None or leaf.raw is None else leaf


def _is_of_keyword(leaf: Leaf) -> bool:
    """Return whether a gradient is that of a keyword argument; these follow in an object with their names."""
    return leaf.slot == OUTPUT and not leaf.suffix.rpartition(".")[2].isdigit()


def _are_equal(cell: tuple[Leaf | None, Leaf | None]) -> bool:
    target, golden = cell
    return target is not None and golden is not None and same_record(target.raw, golden.raw)


def _changed_in_place(dump: Dump) -> set[str]:
    """Return the checksums of tensors that calls of a dump change in place: what they had before."""
    written = ((name, body, _written(name, body)) for name, body in dump.data.items())
    return {
        str(leaf.raw.get("md5"))
        for name, body, suffixes in written
        if suffixes
        for leaf in leaves(name, body)
        if leaf.slot == INPUT and leaf.suffix.startswith(suffixes) and is_tensor(leaf.raw)
    }


def _written(name: str, body: Any) -> tuple[str, ...]:
    """Return the beginnings of the suffixes of the arguments that a call writes to."""
    function = name.rpartition(".forward")[0].rpartition(".")[0].rpartition(".")[2]
    if function == "batch_norm":
        return ".input.1", ".input.2"
    inplace = body.get("input_kwargs", {}).get("inplace") if type(body) is dict else None
    if function.startswith("__i") or (function.endswith("_") and not function.endswith("__")):
        return (".input.0",)
    return (".input.0",) if type(inplace) is dict and inplace.get("value") is True else ()
