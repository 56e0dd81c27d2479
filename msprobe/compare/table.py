"""Two dumps as one table: entries in execution order, each with its pairs of leaves.

The table holds plain lists and one array of row ranges; what a row means is read from it by ``measure`` (numbers),
``cells`` and the analyses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment import frameworks
from msprobe.compare.alignment.protocol import Alignment, FusedLayers, Side, Strategy
from msprobe.compare.items import OUTPUT, Leaf, leaves
from msprobe.compare.leaf_pairs import LeafPairs
from msprobe.compare.lone_direction import lost_directions
from msprobe.compare.pairs import EntryKey, EntryPair, entry_keys, in_execution_order, repeats
from msprobe.compare.plain import FloatPairs, float_pairs
from msprobe.compare.twins import twin_leaves
from msprobe.core.store.reader import Dump

if TYPE_CHECKING:
    from msprobe.compare.inference.layer_map import LayerMap


Records = Mapping[str, Any]


class Together(NamedTuple):
    """The name of several tensors that were put together into one, and the side they are on."""

    name: str
    in_golden: bool


class Changed(NamedTuple):
    """The first value of a recomputed call that is another one than in the call it repeats, and the name of that."""

    suffix: str
    original: str

    @property
    def text(self) -> str:
        return f"has another value than in {self.original}, which this recomputed call repeats"


@dataclass
class LeafTable:
    """``starts[e]:starts[e + 1]`` are the rows of entry ``e``; a row has a leaf on one side or on both.

    ``foreign`` names the golden leaves that belong to another entry than the partner, by row. ``across`` says that
    two frameworks made the sides, ``loose`` that the sides are different programs (see ``Alignment``), ``layer_map``
    is the inferred map by which they were paired. ``repeated`` says that construct.json tells of recomputed calls.
    ``fused`` are the fused modules. Those that were joined make the entries ``joined``, with the names of all parts;
    ``together`` tells by row what was put together, ``unjoined`` in words what could not be (see ``fused_layers``).
    Of the recomputed calls of one side alone, those with values of their own are ``changed``, and ``unrepeated`` are
    those of which that cannot be told (see ``recomputed``).
    ``unrecorded`` are entries of one side alone that the level of the other leaves out, with that as a sentence.
    ``alike`` says of each entry that both sides have the same leaves in the same order.
    """

    entries: list[EntryPair] = field(default_factory=list)
    target: list[Leaf | None] = field(default_factory=list)
    golden: list[Leaf | None] = field(default_factory=list)
    starts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: list[EntryKey] = field(default_factory=list)
    foreign: dict[int, str] = field(default_factory=dict)
    across: bool = False
    loose: bool = False
    layer_map: LayerMap | None = None
    repeated: bool = False
    alike: list[bool] = field(default_factory=list)
    fused: Sequence[FusedLayers] = ()
    joined: dict[int, tuple[str, ...]] = field(default_factory=dict)
    together: dict[int, Together] = field(default_factory=dict)
    unjoined: list[str] = field(default_factory=list)
    unrepeated: frozenset[int] = frozenset()
    changed: dict[int, Changed] = field(default_factory=dict)
    unrecorded: dict[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.target)

    @cached_property
    def float_pairs(self) -> FloatPairs:
        """The statistics of ordinary rows; ask for it when the table is complete."""
        return float_pairs(self.target, self.golden)

    @cached_property
    def lone(self) -> NDArray[np.int8]:
        """Per row 0 where both sides have a leaf, 1 where the target alone has one, -1 where the golden run."""
        sides = zip(self.target, self.golden, strict=True)
        return np.array([(theirs is None) - (ours is None) for ours, theirs in sides], np.int8)

    def entry_of_row(self) -> NDArray[np.int64]:
        """The entry number of every row."""
        return np.repeat(np.arange(len(self.entries)), np.diff(self.starts))

    def key(self, entry: int) -> EntryKey:
        """The parsed name of an entry, of the target where it has one."""
        return self.keys[entry]


def build_table(
    target: Dump, golden: Dump, strategy: Strategy, *, dtype_gate: bool = False, loose: bool = False
) -> LeafTable:
    """Pair two dumps. ``dtype_gate`` un-pairs leaves of different dtype classes, as the published rules do; ``loose``
    says that the sides are different programs even if the strategy does not."""
    parsed: dict[str, tuple[str, str, int | None]] = {}
    below: dict[str, int] = {}
    left = entry_keys(target.data, target.construct, parsed, below)
    right = left if same_entries(target, golden) else entry_keys(golden.data, golden.construct, parsed)
    table = LeafTable(across=frameworks.differ(target, golden), repeated=repeats(below))
    ours_by_name = {key.name: key for key in left}
    theirs_by_name = ours_by_name if right is left else {key.name: key for key in right}
    alignment = strategy.align(Side(target, left), Side(golden, right))
    table.loose, table.layer_map = loose or alignment.loose or table.across, alignment.layer_map
    table.fused = [layers for layers in alignment.fused if layers.target and layers.golden]
    inside = LeafPairs(golden, alignment, dtype_gate, table.across)
    starts = [0]
    for pair in _entry_pairs(alignment, left, right):
        key = ours_by_name[pair.target] if pair.target is not None else None
        other = theirs_by_name[pair.golden] if pair.golden is not None else None
        found = paired_leaves(inside, (key, other), (target.data, golden.data))
        if found is None:
            continue
        for at, name in inside.foreign.items():
            table.foreign[starts[-1] + at] = name
        table.alike.append(found[2])
        table.target.extend(found[0])
        table.golden.extend(found[1])
        table.entries.append(pair)
        table.keys.append(key or other)  # type: ignore[arg-type]
        starts.append(len(table.target))
    table.starts = np.array(starts, np.int64)
    if table.loose:
        from msprobe.compare.lost_layers import other_code  # only where two programs are compared

        sides = Side(target, left), Side(golden, right)
        excused = other_code(table.entries, table.keys, sides, alignment.fused_paths)
        table.entries = lost_directions(excused, table.keys, np.diff(table.starts).tolist())
    _excuse_cut_off(table.entries, target.recovered, golden.recovered)
    return table


def same_entries(target: Dump, golden: Dump) -> bool:
    """Whether the keys of one side are those of the other."""
    if list(target.data) != list(golden.data) or target.construct != golden.construct:
        return False
    ours, theirs = (
        [type(body) is dict and body.get("is_recompute") for body in dump.data.values()] for dump in (target, golden)
    )
    return ours == theirs


def paired_leaves(
    inside: LeafPairs, keys: tuple[EntryKey | None, EntryKey | None], records: tuple[Records, Records]
) -> tuple[Sequence[Leaf | None], Sequence[Leaf | None], bool] | None:
    """The leaves of two entries, or of one, by side, and whether both have the same ones in order; None when all of
    them stand somewhere else."""
    key, other = keys
    inside.foreign = {}
    if inside.plain and key is not None and other is not None and not key.recompute:
        twins = twin_leaves(key.name, other.name, records[0][key.name], records[1][other.name])
        if twins is not None:
            return *twins, True
    ours = leaves(key.name, records[0][key.name]) if key is not None else []
    theirs = leaves(other.name, records[1][other.name]) if other is not None else []
    if key is None and other is not None and inside.claims_all(other.name, theirs):
        return None
    if key is not None and other is not None and key.recompute:
        ours, theirs = _as_far_as_both(ours, theirs)
    pairs = inside.pairs(key, other, ours, theirs)
    return [mine for mine, _ in pairs], [partner for _, partner in pairs], False


def _entry_pairs(alignment: Alignment, target: list[EntryKey], golden: list[EntryKey]) -> Iterator[EntryPair]:
    if alignment.same:
        return (EntryPair(ours.name, theirs.name) for ours, theirs in zip(target, golden, strict=True))
    return in_execution_order(alignment.pairs, target, golden)


def _excuse_cut_off(entries: list[EntryPair], target_ended: bool, golden_ended: bool) -> None:
    """What follows the last entry of a run that died, or still runs, is not missing."""
    for number in range(len(entries) - 1, -1, -1):
        pair = entries[number]
        if not ((target_ended and pair.target is None) or (golden_ended and pair.golden is None)):
            return
        entries[number] = pair._replace(benign=True)


def _as_far_as_both(ours: list[Leaf], theirs: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """A recomputation may end in the middle of a call, as soon as backward has what it needs."""
    if all(any(leaf.slot == OUTPUT for leaf in side) for side in (ours, theirs)):
        return ours, theirs
    both = {leaf.suffix for leaf in ours} & {leaf.suffix for leaf in theirs}
    return [leaf for leaf in ours if leaf.suffix in both], [leaf for leaf in theirs if leaf.suffix in both]
