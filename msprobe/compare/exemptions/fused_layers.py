"""Fused layers: the tensors of the parts are joined, and compared with the one tensor of the whole layer.

The statistics of the whole follow from those of the parts in any order of the parts (see
``numerics.merged_statistics``). So parameters, their gradients, outputs, and the gradients of outputs get a partner.
The input of the whole pairs with the input of the first part. The gradient of the input is a sum over the parts, and
the statistics of the parts do not give those of a sum: it stays without a partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from msprobe.compare.alignment.protocol import FusedLayers
from msprobe.compare.exemptions.protocol import ComparedDumps, Exemption
from msprobe.compare.inputs.mode import Mode, Policy
from msprobe.compare.records.entries import EntryPair, is_module, path_of
from msprobe.compare.table.table import JoinedTensors, LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import INPUT, OUTPUT, PARAMETER, PARAMETER_GRAD, Leaf, is_tensor
from msprobe.core.tensors.statistics import STATISTIC_NAMES
from msprobe.trace.leaves import element_count, is_shape, row_name

_FORWARD, _BACKWARD = Phase.FORWARD.value, Phase.BACKWARD.value
_Calls = dict[tuple[str, str], list[int]]
_Rows = list[tuple[Leaf | None, Leaf | None, str]]


class FusedLayerJoins(Exemption):
    """Joins the parts of fused layers, and notes which cannot be joined."""

    def apply(self, table: LeafTable, dumps: ComparedDumps) -> LeafTable:
        """Return the table with joined entries in place of the fused layers."""
        reason = ""
        if dumps.mode is Mode.CHECKSUM:
            reason = "the checksum of a whole does not follow from those of its parts"
        elif dumps.policy is Policy.REFERENCE:
            reason = "the published rules do not join them"
        if reason:
            self._unjoined = [_fused_note(reason, [_layers_text(layers) for layers in table.fused])]
            return table
        table, self._unjoined = join_fused(table)
        return table

    def notes(self, table: LeafTable) -> list[str]:
        """Return a sentence for each reason why fused layers were not joined."""
        return self._unjoined


def join_fused(table: LeafTable) -> tuple[LeafTable, list[str]]:
    """Return the table with a joined entry for each call of a fused layer, and a sentence for each reason why parts
    could not be joined."""
    target_calls, golden_calls = _calls_without_partner(table)
    joins: list[_Join] = []
    refused: dict[str, list[str]] = {}
    for layers in table.fused:
        in_target = len(layers.target) == 1
        (whole, parts) = (layers.target[0], layers.golden) if in_target else (layers.golden[0], layers.target)
        calls, others = (target_calls, golden_calls) if in_target else (golden_calls, target_calls)
        for phase in (_FORWARD, _BACKWARD, Phase.PARAMETERS_GRAD.value):
            own, rest = calls.get((whole, phase), []), [others.get((part, phase), []) for part in parts]
            if any(len(part_calls) != len(own) for part_calls in rest):
                reason = "the whole and its parts are not called equally often"
                refused.setdefault(reason, []).append(_layers_text(layers))
                continue
            joined = [_Join(table, entry, parts_of, in_target) for entry, *parts_of in zip(own, *rest, strict=True)]
            joins += joined
            if any(not join.partners for join in joined):
                reason = "the tensors of the parts do not add up to the whole"
                refused.setdefault(reason, []).append(_layers_text(layers))
    notes = [_fused_note(reason, list(dict.fromkeys(layers))) for reason, layers in refused.items()]
    return _rebuild(table, joins), notes


def _layers_text(layers: FusedLayers) -> str:
    return " = ".join(" + ".join(side) for side in layers)


def _fused_note(reason: str, layers: Sequence[str]) -> str:
    return f"fused layers were not compared, {reason}: {len(layers)}, first {layers[0]}"


def _calls_without_partner(table: LeafTable) -> tuple[_Calls, _Calls]:
    """Return the module calls without partner of the target and of the golden run.

    These are entry numbers in execution order, by path and phase.
    """
    calls: tuple[_Calls, _Calls] = {}, {}
    for number, (pair, key) in enumerate(zip(table.entries, table.keys, strict=True)):
        if (pair.target is None or pair.golden is None) and is_module(key) and not key.recompute:
            calls[pair.target is None].setdefault((path_of(key.stem), key.phase), []).append(number)
    return calls


@dataclass(slots=True)
class _Join:
    """One call of a whole layer, entry ``whole``, with the calls of its ``parts``.

    ``partners`` has the rows of tensors of the whole, each with its partner; ``used`` are the rows of parts that became
    partners.
    """

    table: LeafTable
    whole: int
    parts: Sequence[int]
    in_target: bool
    partners: dict[int, tuple[Leaf, str]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        rows_by_slot = [self._rows_by_slot(part) for part in self.parts]
        phase = self.table.keys[self.whole].phase
        for row in self.table.rows_of(self.whole):
            leaf = self._leaf(row)
            candidates = [rows.get(_slot_key(leaf)) for rows in rows_by_slot]
            part_rows = [candidate for candidate in candidates if candidate is not None]
            if len(part_rows) != len(candidates):
                continue
            parts = [self._leaf(part_row) for part_row in part_rows]
            if leaf.slot == INPUT and phase == _FORWARD:
                self._partner(row, parts[0], "", part_rows[:1])
            elif not (leaf.slot == OUTPUT and phase == _BACKWARD):
                raw = _joined_raw(leaf, parts)
                names = [row_name(self._name(entry), part) for entry, part in zip(self.parts, parts, strict=True)]
                if raw is not None:
                    self._partner(row, parts[0]._replace(raw=raw), " + ".join(names), part_rows)

    def _partner(self, row: int, leaf: Leaf, name: str, used: Sequence[int]) -> None:
        self.partners[row] = leaf, name
        self.used.update(used)

    @property
    def entry(self) -> int:
        """Return the entry of the target that the joined entry replaces."""
        return self.whole if self.in_target else self.parts[0]

    @property
    def golden_entry(self) -> int:
        """Return the entry of the golden run that becomes the partner."""
        return self.parts[0] if self.in_target else self.whole

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parts."""
        return tuple(map(self._name, self.parts))

    @property
    def pair(self) -> EntryPair:
        """Return the names of both entries."""
        entries = self.table.entries
        return EntryPair(entries[self.entry].target, entries[self.golden_entry].golden)

    def rows(self) -> _Rows:
        """Return the rows of the joined entry: target, golden run, and the names of the tensors that were joined."""
        rows: _Rows = []
        for row in self.table.rows_of(self.whole):
            partner, name = self.partners.get(row, (None, ""))
            rows.append((*self._sides(self._leaf(row), partner), name))
        unused = [row for row in self.table.rows_of(self.parts[0]) if row not in self.used]
        return rows + [(*self._sides(None, self._leaf(row)), "") for row in unused]

    def _sides(self, whole: Leaf | None, part: Leaf | None) -> tuple[Leaf | None, Leaf | None]:
        return (whole, part) if self.in_target else (part, whole)

    def _leaf(self, row: int) -> Leaf:
        leaf = self.table.target[row] or self.table.golden[row]
        assert leaf is not None  # a row has a leaf on one side at least
        return leaf

    def _name(self, entry: int) -> str:
        pair = self.table.entries[entry]
        return pair.target or pair.golden or ""

    def _rows_by_slot(self, entry: int) -> dict[tuple[str, str], int]:
        return {_slot_key(self._leaf(row)): row for row in self.table.rows_of(entry)}


def _slot_key(leaf: Leaf) -> tuple[str, str]:
    """Return slot and suffix of a leaf inside its entry, for parameters the name that frameworks share."""
    from msprobe.compare.layer_inference.name_folding import fold_parameter  # only where layers are fused

    if leaf.slot not in (PARAMETER, PARAMETER_GRAD):
        return leaf.slot, leaf.suffix
    return leaf.slot, fold_parameter(leaf.suffix.rpartition(".")[2])


def _joined_raw(whole: Leaf, parts: Sequence[Leaf]) -> dict[str, Any] | None:
    """Return the record of the parts as one tensor; None where they are no pieces of the whole.

    Parameters are pieces whatever their shapes are; those that do not add up differ in shape.
    """
    from msprobe.compare.parallel.by_name.joined_record import axis_that_adds_up, joined_record  # as above

    raws = [part.raw for part in parts]
    if not all(is_usable(raw) for raw in (whole.raw, *raws)) or len({str(raw["dtype"]) for raw in raws}) > 1:
        return None
    shapes = [raw["shape"] for raw in raws]
    axis = axis_that_adds_up(shapes, [whole.raw["shape"]])
    if axis is None:
        if whole.slot not in (PARAMETER, PARAMETER_GRAD) or not all(shapes):
            return None
        axis = 0
    shape = list(shapes[0])
    shape[axis] = sum(part[axis] for part in shapes)
    return joined_record(raws, [int(element_count(raw)) for raw in raws], shape)


def is_usable(raw: Any) -> bool:
    """Return whether a record has a shape, and numbers or null for its statistics; a damaged record may not."""
    if not is_tensor(raw) or not is_shape(raw["shape"]):
        return False
    return all(raw.get(name) is None or isinstance(raw[name], (int, float)) for name in STATISTIC_NAMES)


def _rebuild(table: LeafTable, joins: Sequence[_Join]) -> LeafTable:
    """Return the table with joined entries in place of entries of the target, and without the rows that they hold."""
    by_entry = {join.entry: join for join in joins if join.partners}
    joined_golden = {join.golden_entry for join in by_entry.values()}
    used = {row for join in by_entry.values() for row in join.used}
    kept = [number for number in range(len(table.entries)) if number not in joined_golden]
    rows_of_entries: list[_Rows] = []
    starts = [0]
    for number in kept:
        rows = by_entry[number].rows() if number in by_entry else list(_unused(table, number, used))
        rows_of_entries.append(rows)
        starts.append(starts[-1] + len(rows))
    joins_by_number = {number: by_entry[old] for number, old in enumerate(kept) if old in by_entry}
    return replace(
        table,
        alike=[table.alike[number] and number not in by_entry for number in kept],
        entries=[by_entry[number].pair if number in by_entry else table.entries[number] for number in kept],
        keys=[table.keys[number] for number in kept],
        target=[target for rows in rows_of_entries for target, _, _ in rows],
        golden=[golden for rows in rows_of_entries for _, golden, _ in rows],
        starts=np.array(starts, np.int64),
        together={
            starts[number] + offset: JoinedTensors(name, in_golden=join.in_target)
            for number, join in joins_by_number.items()
            for offset, (_, _, name) in enumerate(rows_of_entries[number])
            if name
        },
        joined={number: join.names for number, join in joins_by_number.items()},
    )


def _unused(table: LeafTable, number: int, used: set[int]) -> Iterator[tuple[Leaf | None, Leaf | None, str]]:
    for row in table.rows_of(number):
        if row not in used:
            yield table.target[row], table.golden[row], ""
