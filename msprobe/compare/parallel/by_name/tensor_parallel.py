"""Merge the records of tensor-parallel ranks: the statistics of shards become those of the whole tensor.

What a tensor is on the ranks (a shard, a copy, a partial sum) follows from the first of these that decides:

1. its recorded placement (DTensor), or what the program said of it (``recorded_parts``);
2. the other side, which has the tensor whole: a shape that adds up to it along one axis is a shard;
3. the recorded collectives: what went into one and differs between the ranks, while what came out agrees, is a partial
   sum, or another value that the collective completes; so is the product in a row-parallel layer (in backward: in a
   column-parallel one) that holds a reduction;
4. the values: tensors that agree on all ranks are copies, others are shards. Without the other side, tensors of layers
   that are called column- or row-parallel are shards even where their statistics agree.

A tensor that is whole on every rank and yet differs is a partial sum: what the collective made of it is taken, and
without one it stays unchecked. A parameter of this kind is a copy that has drifted; the one that is farthest from the
other side is compared.

``ShardMerge`` merges one group, and ``_EntryMerge`` one entry; ``completed_sums`` has what collectives made of partial
sums, and ``joined_record`` the statistics of a whole from those of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msprobe.compare.parallel.by_name.completed_sums import (
    COLLECTIVE,
    COLUMN,
    ROW,
    Completed,
    close_records,
    completed_sums,
    function_of,
    reductions_by_layer,
    values_of,
)
from msprobe.compare.parallel.by_name.joined_record import axis_that_adds_up, joined_record, local_sizes, rank_free
from msprobe.compare.parallel.pieces import lacks_order, lost_statistics, piece_of
from msprobe.compare.parallel.recorded_parts import Placement, common_part, recorded_placement
from msprobe.compare.records.entries import parent_of
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import damage_of
from msprobe.core.tensors.projection import KEY as ORDERED
from msprobe.core.tensors.statistics import NORM, STATISTIC_NAMES
from msprobe.trace.leaves import COPIES_DIFFER, NO_WHOLE, PIECES, as_float, is_shape

_PRODUCTS = frozenset({"linear", "matmul", "mm", "bmm", "__matmul__", "addmm"})
_Raw = dict[str, Any]
_Path = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MergedRanks:
    """The merged dump, and a line for each kind of value that could not be decided."""

    dump: Dump
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JoinedTensor:
    """How the parts of one tensor became one record.

    Attributes:
        path: keys and indexes from the body of the entry to the tensor.
        parts: the records on the ranks.
        sizes: their numbers of elements; empty where no formula was applied.
        collective: the call whose result was taken instead of the parts, "" where none was.
    """

    path: _Path
    parts: Sequence[_Raw]
    sizes: Sequence[int] = ()
    collective: str = ""


def merge_shards(ranks: Sequence[Dump], other: Sequence[Dump]) -> MergedRanks:
    """Merge the ranks of one tensor-parallel group. ``other`` are the ranks of the other side, whole or sharded."""
    parents = {name: parent_of(ranks[0].construct, name) or "" for name in ranks[0].data}
    merge = ShardMerge([rank.data for rank in ranks], [side.data for side in other], parents)
    data = {name: merge.entry(name) for name in ranks[0].data}
    return MergedRanks(replace(ranks[0], task="statistics", data=data), merge.notes())


class ShardMerge:
    """Merges the entries of one tensor-parallel group, one at a time."""

    def __init__(
        self, ranks: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], parents: Mapping[str, str]
    ) -> None:
        """Take the records by name of each rank and of each rank of the other side.

        ``parents`` gives the parent of each entry of the first rank.
        """
        self._ranks, self._other, self._parents = ranks, other, parents
        self._completed = completed_sums(ranks)
        self._reduced_in = reductions_by_layer(ranks, parents)
        self._partial: list[str] = []
        self._drifted: list[str] = []
        self._apart: list[str] = []
        self._absent: list[str] = []
        self._unclear: list[str] = []

    @property
    def size(self) -> int:
        """Number of ranks of the group."""
        return len(self._ranks)

    def notes(self) -> list[str]:
        """Return a line for each kind of value that could not be decided."""
        texts = (
            (self._partial, "partial sums that no recorded collective completes, not compared"),
            (self._apart, "tensors of which other data-parallel ranks hold parts, not compared"),
            (self._drifted, "parameters that should be copies differ between ranks"),
            (self._absent, "calls recorded by the first rank of a group and not by all"),
            (self._unclear, "tensors whose shapes on the ranks make no whole, not compared"),
        )
        return [f"{text}: {len(names)}, first {names[0]}" for names, text in texts if names]

    def entry(self, name: str) -> Any:
        """Return the merged record of an entry of the first rank."""
        bodies = [rank.get(name) for rank in self._ranks]
        if any(body is None for body in bodies):
            self._absent.append(name)
            return bodies[0]
        if name.startswith(COLLECTIVE):  # what one rank sent and received is no part of the model
            return _EntryMerge(self, name, ()).node(bodies[:1], ())
        return _EntryMerge(self, name, [side.get(name) for side in self._other]).node(bodies, ())

    def joined_entry(self, name: str, bodies: Sequence[Any]) -> tuple[Any, list[JoinedTensor]]:
        """Return the merged record of these bodies of one entry, and how each joined tensor in it came about."""
        merge = _EntryMerge(self, name, [side.get(name) for side in self._other])
        return merge.node(bodies, ()), merge.joined

    def row_parallel(self, name: str) -> bool:
        """Return whether a weight without further evidence is cut along its second axis."""
        return "Row" in f"{name} {self._parents.get(name, '')}"

    def completed(self, raws: Sequence[_Raw]) -> Completed | None:
        """Return what a collective made of tensors that differ between the ranks."""
        return self._completed.get(values_of(raws[0]))

    def reduced_in_layer(self, name: str) -> Completed | None:
        """Return what the reduction of a parallel layer made of the product in it; ``name`` is that of the product."""
        layer = self._parents.get(name, "")
        sums = ROW if name.endswith(".forward") else COLUMN
        return self._reduced_in.get(layer) if sums in layer and function_of(name) in _PRODUCTS else None

    def partial(self, place: str, raws: Sequence[_Raw]) -> _Raw:
        """Return what a collective made of a partial sum, or the tensor without values."""
        if (completed := self.completed(raws)) is not None:
            return completed.in_place_of(raws[0])
        return {**_without_values(self._partial, place, raws), NO_WHOLE: True}

    def unclear(self, place: str, raws: Sequence[_Raw]) -> _Raw:
        """Return the tensor without values: a shape is damaged, or lacks a length."""
        return _without_values(self._unclear, place, raws)

    def apart(self, place: str, raws: Sequence[_Raw]) -> _Raw:
        """Return the tensor without values: they are on ranks that are no part of this model."""
        return {**_without_values(self._apart, place, raws), NO_WHOLE: True}

    def drifted(self, place: str, raws: Sequence[_Raw], whole: Any) -> _Raw:
        """Return the copy that is farthest from the other side, by norm."""
        self._drifted.append(place)
        norm = as_float(whole.get(NORM.name)) if isinstance(whole, Mapping) else 0.0
        return max(raws, key=lambda raw: _norm_distance(as_float(raw.get(NORM.name)), 0.0 if norm != norm else norm))


def _without_values(names: list[str], place: str, raws: Sequence[_Raw]) -> _Raw:
    """Return the tensor as one that cannot be judged, and note its place in ``names``."""
    names.append(place)
    return {**raws[0], **dict.fromkeys((*STATISTIC_NAMES, ORDERED))}


def _order_of_copies(raws: Sequence[_Raw]) -> _Raw:
    """Return what the record of copies says beside their statistics: that their elements are in other orders, or that
    the order of one of them is not known."""
    if lacks_order(raws):
        return {ORDERED: None}
    pieces = [piece for piece in map(piece_of, raws) if piece is not None]
    return {} if all(pieces[0].agrees(other) for other in pieces[1:]) else {PIECES: COPIES_DIFFER}


@dataclass(slots=True)
class _EntryMerge:
    """The merge of one entry.

    ``whole`` are the records of that name on the ranks of the other side, None where there is none. ``joined`` lists
    the tensors that were joined, in the order of the walk.
    """

    merge: ShardMerge
    name: str
    whole: Sequence[Any]
    joined: list[JoinedTensor] = field(default_factory=list)

    def node(self, nodes: Sequence[Any], path: _Path) -> Any:
        """Return the merged record of the same node on all ranks; ``path`` leads to it from the body."""
        first = nodes[0]
        if isinstance(first, dict) and all(isinstance(node, dict) for node in nodes):
            if "shape" in first and "dtype" in first:
                return self._tensor(nodes, path)
            if isinstance(first.get("type"), str):
                return self._argument(first, self._on_other_side(path))
            return {key: self.node([node.get(key) for node in nodes], (*path, key)) for key in first}
        if isinstance(first, list) and all(isinstance(node, list) and len(node) == len(first) for node in nodes):
            return [self.node([node[index] for node in nodes], (*path, index)) for index in range(len(first))]
        return first

    def _on_other_side(self, path: _Path) -> list[Any]:
        """Return what the ranks of the other side have at this path; ranks that lack it are left out."""
        nodes = []
        for node in self.whole:
            for part in path:
                fits = isinstance(node, list) and isinstance(part, int) and part < len(node)
                node = node[part] if fits else node.get(part) if isinstance(node, Mapping) else None
            if node is not None:
                nodes.append(node)
        return nodes

    def _argument(self, own: _Raw, others: Sequence[Any]) -> Any:
        """Return the argument; a number that is this share of the other side's (heads per rank) counts as the same."""
        if not others or not isinstance(others[0], Mapping) or own.get("type") != others[0].get("type"):
            return own
        left, right = own.get("value"), others[0].get("value")
        values, wholes = (left, right) if isinstance(left, list) else ([left], [right])
        if not isinstance(wholes, list) or len(values) != len(wholes):
            return own
        pairs = list(zip(values, wholes, strict=True))
        same = all(type(a) is int and type(b) is int and b in (a, a * self.merge.size) for a, b in pairs)
        return {**own, "value": right} if same else own

    def _tensor(self, raws: Sequence[_Raw], path: _Path) -> _Raw:
        """Return the record of the whole; where pieces lost statistics and it does not show that, one that cannot be
        compared."""
        whole, lost = self._merged(raws, path), lost_statistics(raws)
        if lost is None or damage_of(whole):
            return whole
        return {key: value for key, value in whole.items() if key != NO_WHOLE} | lost

    def _merged(self, raws: Sequence[_Raw], path: _Path) -> _Raw:
        place = ".".join(map(str, (self.name, *path)))
        placement = recorded_placement(raws)
        copies = all(close_records(raws[0], raw) for raw in raws[1:])
        if not _make_a_whole(raws, placement):
            return rank_free(raws[0] if copies else self.merge.unclear(place, raws))
        if placement is not None:
            return self._placed(raws, path, placement)
        part = common_part(raws, tensor_parallel=True)
        if part is not None and part.dim is not None and part.dim < len(raws[0]["shape"]):
            return self._cut_as_declared(raws, path, part.dim)
        others = [raw for raw in self._on_other_side(path) if isinstance(raw, Mapping) and is_shape(raw.get("shape"))]
        if others:
            return self._beside_whole(raws, path, others, copies=copies)
        return self._by_values(raws, path, copies=copies)

    def _placed(self, raws: Sequence[_Raw], path: _Path, placement: Placement) -> _Raw:
        """Return the merge that a recorded placement asks for; recorded shapes are those of the whole."""
        place = ".".join(map(str, (self.name, *path)))
        if placement.partial:
            return rank_free(self.merge.partial(place, raws))
        if placement.apart:
            return rank_free(self.merge.apart(place, raws))
        if placement.axis is None:
            return rank_free(raws[0])
        shape = raws[0]["shape"]
        return self._join(raws, path, local_sizes(shape, placement.axis, len(raws)), shape)

    def _cut_as_declared(self, raws: Sequence[_Raw], path: _Path, axis: int) -> _Raw:
        """Return the tensor that the program said is cut along ``axis``; recorded shapes are those of the pieces."""
        shape = list(raws[0]["shape"])
        shape[axis] = sum(raw["shape"][axis] for raw in raws)
        return self._join(raws, path, [math.prod(raw["shape"]) for raw in raws], shape)

    def _beside_whole(
        self, raws: Sequence[_Raw], path: _Path, others: Sequence[Mapping[str, Any]], *, copies: bool
    ) -> _Raw:
        """Return the merge that makes the shape of the other side."""
        place = ".".join(map(str, (self.name, *path)))
        shapes = [raw["shape"] for raw in raws]
        same_shape = shapes[0] == others[0]["shape"]
        if copies and same_shape:
            return rank_free(raws[0] | _order_of_copies(raws))
        axis = axis_that_adds_up(shapes, [raw["shape"] for raw in others])
        if axis is None and (copies or len(raws) == 1):
            return rank_free(raws[0])
        if axis is None and len(self.whole) == 1 and same_shape:
            if self._is_parameter(path):
                return rank_free(self.merge.drifted(place, raws, others[0]))
            return rank_free(self.merge.partial(place, raws))
        return self._sharded(raws, axis if axis is not None else self._usual_axis(path), path)

    def _by_values(self, raws: Sequence[_Raw], path: _Path, *, copies: bool) -> _Raw:
        """Return the merge that values and names suggest where the other side tells nothing."""
        if len(raws) == 1 or (copies and not self._named_shard(path)):
            return rank_free(raws[0])
        for completed in () if copies else self._completions(raws, path):
            if completed is not None and completed.raw["shape"] == raws[0]["shape"]:
                self.joined.append(JoinedTensor(path, raws, collective=completed.collective))
                return rank_free(completed.in_place_of(raws[0]))
        return self._sharded(raws, self._usual_axis(path), path)

    def _completions(self, raws: Sequence[_Raw], path: _Path) -> Iterator[Completed | None]:
        yield self.merge.completed(raws)
        if path[0] == "output":
            yield self.merge.reduced_in_layer(self.name)

    def _is_parameter(self, path: _Path) -> bool:
        return "parameters" in path or ".parameters_grad" in self.name

    def _named_shard(self, path: _Path) -> bool:
        """Return whether the name of the layer says that a tensor is a shard.

        All of a column-parallel layer is, but its input (in backward: the gradient of its input); all of a row-parallel
        one but its result and its bias.
        """
        forward = ".forward" in self.name
        if COLUMN in self.name:
            whole = "input_args" if forward else "output"
        elif ROW in self.name:
            whole = "output" if forward else "input"
        else:
            return False
        return path[0] != whole and not (ROW in self.name and "bias" in path)

    def _usual_axis(self, path: _Path) -> int:
        """Return the axis along which tensors of this kind are cut.

        Activations are cut along the last axis, weights along the first, those of row-parallel layers the second.
        """
        if not self._is_parameter(path):
            return -1
        return 1 if self.merge.row_parallel(self.name) else 0

    def _sharded(self, raws: Sequence[_Raw], axis: int, path: _Path) -> _Raw:
        shape = list(raws[0]["shape"])
        if not -len(shape) <= axis < len(shape):
            return rank_free(raws[0])
        shape[axis] = sum(raw["shape"][axis] for raw in raws)
        return self._join(raws, path, [math.prod(raw["shape"]) for raw in raws], shape)

    def _join(self, raws: Sequence[_Raw], path: _Path, sizes: Sequence[int], shape: Sequence[int]) -> _Raw:
        self.joined.append(JoinedTensor(path, raws, sizes))
        return joined_record(raws, sizes, shape)


def _norm_distance(norm: float, reference: float) -> float:
    """Return how far a copy is from the other side; one without a norm is farthest."""
    return abs(norm - reference) if norm == norm else math.inf


def _make_a_whole(raws: Sequence[_Raw], placement: Placement | None) -> bool:
    """Return whether the shapes are complete and have the same axes, the cut one among them."""
    if not all(is_shape(raw.get("shape")) for raw in raws):
        return False
    axes = {len(raw["shape"]) for raw in raws}
    if len(axes) != 1:
        return False
    return placement is None or placement.axis is None or -min(axes) <= placement.axis < min(axes)
