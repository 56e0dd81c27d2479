"""Two dumps as one table: entries in execution order, each with its pairs of leaves.

The table holds plain lists and one array of row ranges; what a row means is read from it by ``measure`` (numbers),
``cells`` and the analyses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.alignment import cross_framework
from msprobe.compare.alignment.protocol import Alignment, FusedLayers, FusedPaths, Side, Strategy
from msprobe.compare.records.entries import EntryKey, EntryPair, entry_keys, in_execution_order, repeats
from msprobe.compare.records.recorder import marked_as, other_kernels, side_of_another_tool
from msprobe.compare.table.float_pairs import FloatPairs, float_pairs
from msprobe.compare.table.leaf_pairs import LeafPairs
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import OUTPUT, Leaf, is_tensor, leaves, leaves_of_both

if TYPE_CHECKING:
    from msprobe.compare.alignment.layer_map import LayerMap
    from msprobe.compare.records.otherwise import Otherwise
    from msprobe.numerics.verdict import Measured

Records = Mapping[str, Any]


class JoinedTensors(NamedTuple):
    """Several tensors that were joined to one: the names of all of them, and the side that has them."""

    name: str
    in_golden: bool


class ChangedRecompute(NamedTuple):
    """The first value of a recomputed call that differs from the call it repeats: its suffix, and the name of that
    call."""

    suffix: str
    original: str

    @property
    def text(self) -> str:
        """The difference in words."""
        return f"has another value than in {self.original}, which this recomputed call repeats"


Ranges = tuple[slice, ...]
"""The part of a tensor that is compared: a range per axis."""
RowRanges = tuple["Ranges | None", "Ranges | None"]
"""The parts of both sides of a row; None for a whole tensor."""


class RequestPart(Protocol):
    """What of the tensors belongs to one request of a server (see ``requests.request_tensors``).

    ``tokens`` has the axis of tokens and the position of the first of them, by row. Rows are ``unclear`` where several
    parts fit, ``apart`` where both sides hold no common token, ``excused`` where they differ and are not judged.
    """

    @property
    def id(self) -> str:
        """The request."""

    @property
    def positions(self) -> str:
        """The positions of its compared tokens, such as ``4-7``."""

    @property
    def tokens(self) -> Mapping[int, tuple[int | None, int]]: ...
    @property
    def ranges(self) -> Mapping[int, RowRanges]: ...
    @property
    def unclear(self) -> frozenset[int]: ...
    @property
    def apart(self) -> frozenset[int]: ...
    @property
    def excused(self) -> set[int]: ...

    def excuse(self, table: LeafTable, measured: Measured) -> None:
        """Note the rows that differ and are not judged."""

    def remarks(self, table: LeafTable, unknown: frozenset[int]) -> list[str]:
        """Return sentences about what was not judged, with reason."""

    def lost(self, table: LeafTable) -> list[str]:
        """Return sentences about what should have been judged and was not."""


class PartialTensors(NamedTuple):
    """The tensors of which a part is compared (see ``exemptions.sliced_tensors``).

    Args:
        ranges: the part of both sides, by row.
        unknown: the rows of these that have no numbers for the part.
        lengths: lengths of axes, of target and golden run, where both differ before they are cut.
        request: the parts of one request of a server, where these are compared.
    """

    ranges: Mapping[int, RowRanges]
    unknown: frozenset[int]
    lengths: frozenset[tuple[int, int]]
    request: RequestPart | None = None

    def leaves_unjudged(self, row: int) -> bool:
        """Return whether nothing is known of a row, or it may differ with reason."""
        return row in self.unknown or (self.request is not None and row in self.request.excused)


@dataclass(frozen=True, eq=False)
class LeafTable:
    """Two dumps as one table: ``starts[e]:starts[e + 1]`` are the rows of entry ``e``.

    A row has a leaf of the target, of the golden run, or of both. ``keys`` has the parsed name of each entry, of the
    target where the target has it. The table is complete when the exemptions have been applied; nothing changes it.

    What the alignment says: ``other_entry`` names the golden leaf of a row that belongs to another entry than the
    partner. ``across`` says that the sides are from two frameworks, ``kernels`` names framework and device of both
    where these differ, ``loose`` says that the sides are different programs (see ``Alignment``), ``layer_map`` is the
    inferred map by which they were paired, ``published`` that the published rules decide. ``fused`` are the fused
    layers and ``fused_paths`` the paths of all of their modules by side. ``repeated`` says that construct.json of the
    target shows recomputed calls (see ``entries.repeats``). ``alike`` says of each entry whether both sides have the
    same leaves in the same order. ``checksums`` says that checksums are compared, and no statistics.

    What the exemptions add: ``exempted`` has those that were applied, which keep what they found. ``other_tool`` is the
    side, 0 or 1, that a tool other than msprobe recorded, and ``recorded_otherwise`` says of rows what that tool
    records differently. ``joined`` has the names of all parts of each entry that stands for a fused layer, ``together``
    by row what was joined. ``partial`` says which tensors are compared in part, None where the user chose none.
    ``changed`` are the recomputed calls of one side with values of their own. ``unrecorded`` says of an entry of one
    side in a sentence why the level of the other side leaves it out. ``ended_from`` is the first entry that may be
    incomplete because a run died or still runs.

    ``gradient_factor`` is what the gradients of the target were divided by.

    ``updated`` names by row the parameter of which the row has the value after a step, where each side has an optimizer
    of its own.

    What the verdicts add: ``harmless`` are the entries of both sides that differ without consequence.

    ``lone_rows`` is what ``lone`` returns where that is known without reading the leaves.
    """

    entries: Sequence[EntryPair] = ()
    target: Sequence[Leaf | None] = ()
    golden: Sequence[Leaf | None] = ()
    starts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: Sequence[EntryKey] = ()
    other_entry: Mapping[int, str] = field(default_factory=dict)
    across: bool = False
    kernels: frozenset[str] = frozenset()
    loose: bool = False
    published: bool = False
    layer_map: LayerMap | None = None
    repeated: bool = False
    checksums: bool = False
    alike: Sequence[bool] = ()
    fused: Sequence[FusedLayers] = ()
    fused_paths: FusedPaths = (frozenset(), frozenset())
    recorded_otherwise: Mapping[int, Otherwise] = field(default_factory=dict)
    exempted: Mapping[str, Any] = field(default_factory=dict)
    other_tool: int | None = None
    joined: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    together: Mapping[int, JoinedTensors] = field(default_factory=dict)
    partial: PartialTensors | None = None
    changed: Mapping[int, ChangedRecompute] = field(default_factory=dict)
    unrecorded: Mapping[int, str] = field(default_factory=dict)
    ended_from: int | None = None
    gradient_factor: float = 1.0
    updated: Mapping[int, str] = field(default_factory=dict)
    harmless: frozenset[int] = frozenset()
    lone_rows: NDArray[np.int8] | None = None

    @cached_property
    def numbers_by_name(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """By side, of target and golden run, the number of each entry by its name."""
        return (
            {pair[0]: number for number, pair in enumerate(self.entries) if pair[0] is not None},
            {pair[1]: number for number, pair in enumerate(self.entries) if pair[1] is not None},
        )

    @cached_property
    def alone(self) -> tuple[int, ...]:
        """The numbers of the entries that one side alone has."""
        pairs = enumerate(self.entries)
        return tuple([number for number, (target, golden, _) in pairs if target is None or golden is None])

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return len(self.target)

    @cached_property
    def float_pairs(self) -> FloatPairs:
        """The statistics of plain rows; none where checksums are compared."""
        return float_pairs((), ()) if self.checksums else float_pairs(self.target, self.golden)

    @cached_property
    def lone(self) -> NDArray[np.int8]:
        """Per row 0 where both sides have a leaf, 1 where only the target has one, -1 where only the golden run."""
        if self.lone_rows is not None:
            return self.lone_rows
        sides = zip(self.target, self.golden, strict=True)
        return np.array([(golden is None) - (target is None) for target, golden in sides], np.int8)

    def leaf(self, side: int, row: int) -> Leaf | None:
        """Return what a side, 0 for the target and 1 for the golden run, has in a row."""
        return (self.golden if side else self.target)[row]

    def tensors(self, row: int) -> list[dict[str, Any]]:
        """Return the tensors in a row, that of the target first."""
        leaves = self.target[row], self.golden[row]
        return [leaf.raw for leaf in leaves if leaf is not None and is_tensor(leaf.raw)]

    def values(self, side: int, entry: int, *slots: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the tensors that a side has in these slots of an entry, with their rows."""
        leaves = self.golden if side else self.target
        for row in self.rows_of(entry):
            leaf = leaves[row]
            if leaf is not None and leaf.slot in slots and is_tensor(leaf.raw):
                yield row, leaf.raw

    def rows_of(self, entry: int) -> range:
        """Return the rows of an entry."""
        return range(int(self.starts[entry]), int(self.starts[entry + 1]))

    def entries_of(self, rows: Sequence[int] | NDArray[np.int64]) -> list[int]:
        """Return the numbers of the entries of ascending rows, each once."""
        return list(dict.fromkeys((self.starts.searchsorted(rows, side="right") - 1).tolist()))

    def rows_per_entry(self) -> list[int]:
        """Return the number of rows of each entry."""
        return np.diff(self.starts).tolist()  # type: ignore[no-any-return]

    def entry_of_row(self) -> NDArray[np.int64]:
        """Return the entry number of every row."""
        return np.repeat(np.arange(len(self.entries)), np.diff(self.starts))


def build_table(
    target: Dump,
    golden: Dump,
    strategy: Strategy,
    *,
    dtype_gate: bool = False,
    loose: bool = False,
    checksums: bool = False,
) -> LeafTable:
    """Pair the entries and leaves of two dumps.

    ``dtype_gate`` leaves leaves of different dtype classes without a partner, as the published rules do. ``loose`` says
    that the sides are different programs even if the strategy does not. ``checksums`` says that statistics are not
    compared.
    """
    parsed: dict[str, tuple[str, str, int | None]] = {}
    below: dict[str, int] = {}
    target_keys = entry_keys(target.data, target.construct, parsed, below)
    golden_keys = target_keys
    if not same_entries(target, golden):
        golden_keys = entry_keys(golden.data, golden.construct, parsed)
    other = None if dtype_gate else side_of_another_tool(target, golden)
    if other == 0:
        target_keys = marked_as(target_keys, golden_keys)
    elif other == 1:
        golden_keys = marked_as(golden_keys, target_keys)
    alignment = strategy.align(Side(target, target_keys), Side(golden, golden_keys))
    across = cross_framework.differ(target, golden)
    rows = _TableRows(target, golden, LeafPairs(golden, alignment, dtype_gate, across))
    target_by_name = {key.name: key for key in target_keys}
    golden_by_name = target_by_name if golden_keys is target_keys else {key.name: key for key in golden_keys}
    for pair in _entry_pairs(alignment, target_keys, golden_keys):
        rows.add(
            pair,
            target_by_name[pair.target] if pair.target is not None else None,
            golden_by_name[pair.golden] if pair.golden is not None else None,
        )
    return LeafTable(
        rows.entries,
        rows.target_leaves,
        rows.golden_leaves,
        np.array(rows.starts, np.int64),
        rows.keys,
        rows.other_entry,
        across=across,
        kernels=other_kernels(target, golden),
        loose=loose or alignment.loose or across,
        published=dtype_gate,
        layer_map=alignment.layer_map,
        repeated=repeats(below),
        checksums=checksums,
        alike=rows.alike,
        fused=[layers for layers in alignment.fused if layers.target and layers.golden],
        fused_paths=alignment.fused_paths,
    )


@dataclass(slots=True)
class _TableRows:
    """The columns of a table while it grows, entry by entry."""

    target: Dump
    golden: Dump
    inside: LeafPairs
    entries: list[EntryPair] = field(default_factory=list)
    keys: list[EntryKey] = field(default_factory=list)
    target_leaves: list[Leaf | None] = field(default_factory=list)
    golden_leaves: list[Leaf | None] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    alike: list[bool] = field(default_factory=list)
    other_entry: dict[int, str] = field(default_factory=dict)

    def add(self, pair: EntryPair, target: EntryKey | None, golden: EntryKey | None) -> None:
        """Add the rows of two paired entries, or of an entry that one side has."""
        sides = paired_leaves(self.inside, (target, golden), (self.target.data, self.golden.data))
        if sides is None:
            return
        target_leaves, golden_leaves, alike = sides
        for offset, name in self.inside.other_entry.items():
            self.other_entry[self.starts[-1] + offset] = name
        self.alike.append(alike)
        self.target_leaves.extend(target_leaves)
        self.golden_leaves.extend(golden_leaves)
        self.entries.append(pair)
        self.keys.append(target or golden)  # type: ignore[arg-type]
        self.starts.append(len(self.target_leaves))


def same_entries(target: Dump, golden: Dump) -> bool:
    """Return whether both dumps have the same entry keys, so that these need to be made once only."""
    if list(target.data) != list(golden.data) or target.construct != golden.construct:
        return False
    marks, golden_marks = (
        [type(body) is dict and body.get("is_recompute") for body in dump.data.values()] for dump in (target, golden)
    )
    return marks == golden_marks


def paired_leaves(
    inside: LeafPairs, keys: tuple[EntryKey | None, EntryKey | None], records: tuple[Records, Records]
) -> tuple[Sequence[Leaf | None], Sequence[Leaf | None], bool] | None:
    """Return the leaves of two paired entries, or of one entry alone, and whether both have the same in the same order.

    Both lists have an item per row: the leaf of the target, and that of the golden run. Return None where a mapping has
    put every leaf of this golden entry into rows of other entries.
    """
    target_key, golden_key = keys
    inside.other_entry = {}
    if inside.plain and target_key is not None and golden_key is not None and not target_key.recompute:
        leaves_of_calls = leaves_of_both(
            target_key.name, golden_key.name, records[0][target_key.name], records[1][golden_key.name]
        )
        if leaves_of_calls is not None:
            return *leaves_of_calls, True
    target = leaves(target_key.name, records[0][target_key.name]) if target_key is not None else []
    golden = leaves(golden_key.name, records[1][golden_key.name]) if golden_key is not None else []
    if target_key is None and golden_key is not None and inside.claims_all(golden_key.name, golden):
        return None
    if target_key is not None and golden_key is not None and target_key.recompute:
        target, golden = _recorded_by_both(target, golden)
    pairs = inside.pairs(target_key, golden_key, target, golden)
    return [leaf for leaf, _ in pairs], [partner for _, partner in pairs], False


def _entry_pairs(alignment: Alignment, target: list[EntryKey], golden: list[EntryKey]) -> Iterator[EntryPair]:
    if alignment.same:
        return (EntryPair(key.name, partner.name) for key, partner in zip(target, golden, strict=True))
    return in_execution_order(alignment.pairs, target, golden)


def _recorded_by_both(target: list[Leaf], golden: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
    """Return the leaves that both sides have: a recomputation may end in the middle of a call, as soon as backward has
    what it needs."""
    if all(any(leaf.slot == OUTPUT for leaf in side) for side in (target, golden)):
        return target, golden
    both = {leaf.suffix for leaf in target} & {leaf.suffix for leaf in golden}
    return [leaf for leaf in target if leaf.suffix in both], [leaf for leaf in golden if leaf.suffix in both]
