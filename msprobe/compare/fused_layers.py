"""Fused layers are judged: the tensors of the parts, put together, stand for the one tensor of the whole layer.

Largest, smallest, mean and norm of the whole follow from those of the parts in whatever order they lie inside it
(``numerics.shards``). So parameters, their gradients, outputs, and the gradients of outputs have a partner; the input
of the whole pairs with that of the first part. The gradient of the input is a sum over the parts, of which their
statistics tell nothing: it stays without a partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.alignment.protocol import FusedLayers
from msprobe.compare.inference.folding import fold_parameter
from msprobe.compare.items import (
    INPUT,
    OUTPUT,
    PARAMETER,
    PARAMETER_GRAD,
    Leaf,
    element_count,
    is_shape,
    is_tensor,
    row_name,
)
from msprobe.compare.pairs import EntryPair, path_of
from msprobe.compare.shard_placement import axis_that_adds_up
from msprobe.compare.table import LeafTable, Together
from msprobe.compare.tensor_shards import joined_record
from msprobe.core.naming.model import Phase
from msprobe.core.tensors.statistics import STATISTIC_NAMES

_FORWARD, _BACKWARD = Phase.FORWARD.value, Phase.BACKWARD.value
_Calls = dict[tuple[str, str], list[int]]
_Rows = list[tuple[Leaf | None, Leaf | None, str]]


def join_fused(table: LeafTable) -> None:
    """Give the fused layers of ``table`` their partners. ``table.unjoined`` tells of those that could get none."""
    targets, goldens = _lone_calls(table)
    joins: list[_Join] = []
    refused: dict[str, list[str]] = {}
    for layers in table.fused:
        in_target = len(layers.target) == 1
        (whole, parts) = (layers.target[0], layers.golden) if in_target else (layers.golden[0], layers.target)
        calls, others = (targets, goldens) if in_target else (goldens, targets)
        for phase in (_FORWARD, _BACKWARD, Phase.PARAMETERS_GRAD.value):
            own, rest = calls.get((whole, phase), []), [others.get((part, phase), []) for part in parts]
            if any(len(one) != len(own) for one in rest):
                refused.setdefault("the whole and its parts are not called equally often", []).append(_told(layers))
                continue
            made = [_Join(table, at, parts_at, in_target) for at, *parts_at in zip(own, *rest, strict=True)]
            joins += made
            if any(not one.partners for one in made):
                refused.setdefault("the tensors of the parts do not add up to the whole", []).append(_told(layers))
    _rebuild(table, joins)
    table.unjoined = [_note(reason, list(dict.fromkeys(layers))) for reason, layers in refused.items()]


def leave_fused(table: LeafTable, reason: str) -> None:
    """Tell that the fused layers of ``table`` are not judged, and why."""
    table.unjoined = [_note(reason, [_told(layers) for layers in table.fused])]


def _told(layers: FusedLayers) -> str:
    return " = ".join(" + ".join(side) for side in layers)


def _note(reason: str, layers: Sequence[str]) -> str:
    return f"fused layers were not compared, {reason}: {len(layers)}, first {layers[0]}"


def _lone_calls(table: LeafTable) -> tuple[_Calls, _Calls]:
    """The module calls without partner by path and phase, as entry numbers in their order: target, golden run."""
    found: tuple[_Calls, _Calls] = {}, {}
    for number, (pair, key) in enumerate(zip(table.entries, table.keys, strict=True)):
        if (pair.target is None or pair.golden is None) and is_module(key) and not key.recompute:
            found[pair.target is None].setdefault((path_of(key.stem), key.phase), []).append(number)
    return found


@dataclass(slots=True)
class _Join:
    """One call of a whole layer, entry ``whole``, with the calls of its ``parts``.

    ``partners`` are the rows of tensors of the whole with their partners, ``used`` the rows of parts that went there.
    """

    table: LeafTable
    whole: int
    parts: Sequence[int]
    in_target: bool
    partners: dict[int, tuple[Leaf, str]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        places = [self._places(part) for part in self.parts]
        phase = self.table.key(self.whole).phase
        for row in self._rows(self.whole):
            leaf = self._leaf(row)
            rows = [there.get(_place(leaf)) for there in places]
            known = [other for other in rows if other is not None]
            if len(known) != len(rows):
                continue
            parts = [self._leaf(other) for other in known]
            if leaf.slot == INPUT and phase == _FORWARD:
                self._partner(row, parts[0], "", known[:1])
            elif not (leaf.slot == OUTPUT and phase == _BACKWARD):
                raw = _together(leaf, parts)
                names = [row_name(self._name(part), one) for part, one in zip(self.parts, parts, strict=True)]
                if raw is not None:
                    self._partner(row, parts[0]._replace(raw=raw), " + ".join(names), known)

    def _partner(self, row: int, leaf: Leaf, name: str, used: Sequence[int]) -> None:
        self.partners[row] = leaf, name
        self.used.update(used)

    @property
    def at(self) -> int:
        """The entry of the target, where the joined one stands."""
        return self.whole if self.in_target else self.parts[0]

    @property
    def gone(self) -> int:
        """The entry of the golden run that is now a partner."""
        return self.parts[0] if self.in_target else self.whole

    @property
    def names(self) -> tuple[str, ...]:
        """The parts by name."""
        return tuple(map(self._name, self.parts))

    @property
    def pair(self) -> EntryPair:
        entries = self.table.entries
        return EntryPair(entries[self.at].target, entries[self.gone].golden)

    def rows(self) -> _Rows:
        """The rows of the joined entry: target, golden run, and the name of what was put together."""
        found: _Rows = []
        for row in self._rows(self.whole):
            partner, name = self.partners.get(row, (None, ""))
            found.append((*self._sides(self._leaf(row), partner), name))
        left = [row for row in self._rows(self.parts[0]) if row not in self.used]
        return found + [(*self._sides(None, self._leaf(row)), "") for row in left]

    def _sides(self, whole: Leaf | None, part: Leaf | None) -> tuple[Leaf | None, Leaf | None]:
        return (whole, part) if self.in_target else (part, whole)

    def _rows(self, entry: int) -> range:
        return range(int(self.table.starts[entry]), int(self.table.starts[entry + 1]))

    def _leaf(self, row: int) -> Leaf:
        leaf = self.table.target[row] or self.table.golden[row]
        assert leaf is not None  # a row has a leaf on one side at least
        return leaf

    def _name(self, entry: int) -> str:
        pair = self.table.entries[entry]
        return pair.target or pair.golden or ""

    def _places(self, entry: int) -> dict[tuple[str, str], int]:
        return {_place(self._leaf(row)): row for row in self._rows(entry)}


def _place(leaf: Leaf) -> tuple[str, str]:
    """Where a leaf stands in its entry, parameters by the names that frameworks share."""
    if leaf.slot not in (PARAMETER, PARAMETER_GRAD):
        return leaf.slot, leaf.suffix
    return leaf.slot, fold_parameter(leaf.suffix.rpartition(".")[2])


def _together(whole: Leaf, parts: Sequence[Leaf]) -> dict[str, Any] | None:
    """The record of the parts as one tensor; None where they are no pieces of the whole.

    Parameters are pieces whatever their shapes are; those that do not add up differ in shape.
    """
    raws = [part.raw for part in parts]
    if not all(_is_usable(raw) for raw in (whole.raw, *raws)) or len({str(raw["dtype"]) for raw in raws}) > 1:
        return None
    shapes = [raw["shape"] for raw in raws]
    axis = axis_that_adds_up(shapes, [whole.raw["shape"]])
    if axis is None:
        if whole.slot not in (PARAMETER, PARAMETER_GRAD) or not all(shapes):
            return None
        axis = 0
    shape = list(shapes[0])
    shape[axis] = sum(one[axis] for one in shapes)
    return joined_record(raws, [int(element_count(raw)) for raw in raws], shape)


def _is_usable(raw: Any) -> bool:
    """Whether a record has lengths and numbers to count with, or says that it has none; a damaged one may not."""
    if not is_tensor(raw) or not is_shape(raw["shape"]):
        return False
    return all(raw.get(name) is None or isinstance(raw[name], (int, float)) for name in STATISTIC_NAMES)


def _rebuild(table: LeafTable, joins: Sequence[_Join]) -> None:
    """Write the joined entries in place of those of the target, without what became a part of them."""
    by_entry = {join.at: join for join in joins if join.partners}
    names = {number: join.names for number, join in by_entry.items()}
    gone = {join.gone for join in by_entry.values()}
    used = {row for join in by_entry.values() for row in join.used}
    kept = [number for number in range(len(table.entries)) if number not in gone]
    made: list[_Rows] = []
    starts = [0]
    for number in kept:
        rows = by_entry[number].rows() if number in by_entry else list(_unused(table, number, used))
        made.append(rows)
        starts.append(starts[-1] + len(rows))
    table.alike = [table.alike[number] and number not in by_entry for number in kept]
    table.entries = [by_entry[number].pair if number in by_entry else table.entries[number] for number in kept]
    table.keys = [table.keys[number] for number in kept]
    flat = [row for rows in made for row in rows]
    table.target, table.golden = [ours for ours, _, _ in flat], [theirs for _, theirs, _ in flat]
    table.starts = np.array(starts, np.int64)
    sides = {number: by_entry[old].in_target for number, old in enumerate(kept) if old in by_entry}
    table.together = {
        starts[number] + at: Together(name, in_golden=in_target)
        for number, in_target in sides.items()
        for at, (_, _, name) in enumerate(made[number])
        if name
    }
    table.joined = {number: names[old] for number, old in enumerate(kept) if old in by_entry}


def _unused(table: LeafTable, number: int, used: set[int]) -> Iterator[tuple[Leaf | None, Leaf | None, str]]:
    for row in range(int(table.starts[number]), int(table.starts[number + 1])):
        if row not in used:
            yield table.target[row], table.golden[row], ""
