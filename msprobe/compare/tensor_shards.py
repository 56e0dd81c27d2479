"""The records of tensor-parallel ranks as the records of one model: statistics of shards become those of the whole.

Whether a tensor is sharded is read from its recorded placement, where there is one. Otherwise the other side tells: it
has the tensor whole, so a shape that adds up to it along one axis is a shard. Where it tells nothing, tensors that are
the same on all ranks are copies and others are shards. What is whole on every rank and yet differs is a partial sum:
what the collective made of it is taken, and without one it stays unchecked. A parameter of this kind is a copy that
has drifted; the one that is farthest from the other side is compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msprobe.compare.items import is_shape
from msprobe.compare.pairs import parent_of
from msprobe.compare.recorded_number import as_float, bounded
from msprobe.compare.shard_placement import Placement, axis_that_adds_up, local_sizes, recorded_placement
from msprobe.core.store.reader import Dump
from msprobe.core.tensors.projection import KEY as ORDERED
from msprobe.numerics.shards import Shard, merged_statistics

STATISTICS = ("Max", "Min", "Mean", "Norm")
_LOCAL = ("md5", "data_name", "placements", "device_mesh")
_COLLECTIVE = "Distributed."
_CLOSE = 1e-6
_Raw = dict[str, Any]


@dataclass(slots=True)
class Merged:
    """The merged dump and what could not be decided, in words."""

    dump: Dump
    notes: list[str] = field(default_factory=list)


def merge_shards(ranks: Sequence[Dump], other: Sequence[Dump]) -> Merged:
    """Merge the ranks of one tensor-parallel group. ``other`` are the ranks of the other side, whole or sharded."""
    work = _Merge(ranks, other)
    data = {name: work.entry(name) for name in ranks[0].data}
    return Merged(replace(ranks[0], task="statistics", data=data), work.told())


class _Merge:
    def __init__(self, ranks: Sequence[Dump], other: Sequence[Dump]) -> None:
        self._ranks, self._other = ranks, other
        self._partial: list[str] = []
        self._drifted: list[str] = []
        self._apart: list[str] = []
        self._absent: list[str] = []
        self._unclear: list[str] = []
        self._reduced = _collected(ranks)

    def told(self) -> list[str]:
        texts = (
            (self._partial, "partial sums that no recorded collective completes, not compared"),
            (self._apart, "tensors of which other data-parallel ranks hold parts, not compared"),
            (self._drifted, "parameters that should be copies differ between ranks"),
            (self._absent, "calls recorded by the first rank of a group and not by all"),
            (self._unclear, "tensors whose shapes on the ranks make no whole, not compared"),
        )
        return [f"{text}: {len(names)}, first {names[0]}" for names, text in texts if names]

    def entry(self, name: str) -> Any:
        bodies = [rank.data.get(name) for rank in self._ranks]
        if any(body is None for body in bodies):
            self._absent.append(name)
            return bodies[0]
        if name.startswith(_COLLECTIVE):  # what one rank gave and got is no part of the model
            return _Entry(self, name, ()).node(bodies[:1], ())
        return _Entry(self, name, [side.data.get(name) for side in self._other]).node(bodies, ())

    def row_parallel(self, name: str) -> bool:
        """Whether a weight without further evidence is cut along its second axis."""
        return "Row" in f"{name} {parent_of(self._ranks[0].construct, name) or ''}"

    def partial(self, place: str, raws: Sequence[_Raw]) -> _Raw:
        """What a collective made of a partial sum, or the tensor without values."""
        reduced = self._reduced.get(_values(raws[0]))
        if reduced is not None:
            return reduced
        return _without_values(self._partial, place, raws)

    def unclear(self, place: str, raws: Sequence[_Raw]) -> _Raw:
        """The tensor without values: a shape is damaged, or lacks a length."""
        return _without_values(self._unclear, place, raws)

    def apart(self, place: str, raws: Sequence[_Raw]) -> _Raw:
        """The tensor without values: they are on ranks that are no part of this model."""
        return _without_values(self._apart, place, raws)

    def drifted(self, place: str, raws: Sequence[_Raw], whole: Any) -> _Raw:
        """The copy that is farthest from the other side."""
        self._drifted.append(place)
        known = as_float(whole.get("Norm")) if isinstance(whole, Mapping) else 0.0
        return max(raws, key=lambda raw: _apart(as_float(raw.get("Norm")), 0.0 if known != known else known))


def _without_values(names: list[str], place: str, raws: Sequence[_Raw]) -> _Raw:
    """The tensor as one that cannot be judged; ``names`` tell of it."""
    names.append(place)
    return {**raws[0], **dict.fromkeys(STATISTICS)}


@dataclass(slots=True)
class _Entry:
    """The merge of one entry; ``whole`` are the records of that name on the other side, None where there is none."""

    merge: _Merge
    name: str
    whole: Sequence[Any]

    def node(self, nodes: Sequence[Any], path: tuple[Any, ...]) -> Any:
        first = nodes[0]
        if isinstance(first, dict) and all(isinstance(node, dict) for node in nodes):
            if "shape" in first and "dtype" in first:
                return self._tensor(nodes, path)
            if isinstance(first.get("type"), str):
                return self._argument(first, self._there(path))
            return {key: self.node([node.get(key) for node in nodes], (*path, key)) for key in first}
        if isinstance(first, list) and all(isinstance(node, list) and len(node) == len(first) for node in nodes):
            return [self.node([node[at] for node in nodes], (*path, at)) for at in range(len(first))]
        return first

    def _there(self, path: tuple[Any, ...]) -> list[Any]:
        """The same place on the other side, one per rank; places that are not there are left out."""
        found = []
        for node in self.whole:
            for part in path:
                fits = isinstance(node, list) and isinstance(part, int) and part < len(node)
                node = node[part] if fits else node.get(part) if isinstance(node, Mapping) else None
            if node is not None:
                found.append(node)
        return found

    def _argument(self, own: _Raw, there: Sequence[Any]) -> Any:
        """A number that is this share of the other side's (heads per rank) counts as the same."""
        if not there or not isinstance(there[0], Mapping) or own.get("type") != there[0].get("type"):
            return own
        left, right = own.get("value"), there[0].get("value")
        parts = len(self.merge._ranks)
        values, others = (left, right) if isinstance(left, list) else ([left], [right])
        if not isinstance(others, list) or len(values) != len(others):
            return own
        pairs = list(zip(values, others, strict=True))
        same = all(type(a) is int and type(b) is int and b in (a, a * parts) for a, b in pairs)
        return {**own, "value": right} if same else own

    def _tensor(self, raws: Sequence[_Raw], path: tuple[Any, ...]) -> _Raw:
        place = ".".join(map(str, (self.name, *path)))
        there = [raw for raw in self._there(path) if isinstance(raw, Mapping) and is_shape(raw.get("shape"))]
        known = recorded_placement(raws)
        alike = all(_close(raws[0], raw) for raw in raws[1:])
        if not _make_a_whole(raws, known):
            return _whole(raws[0] if alike else self.merge.unclear(place, raws))
        if known is not None:
            if known.partial:
                return _whole(self.merge.partial(place, raws))
            if known.apart:
                return _whole(self.merge.apart(place, raws))
            if known.axis is None:
                return _whole(raws[0])
            return joined_record(raws, local_sizes(raws[0]["shape"], known.axis, len(raws)), raws[0]["shape"])
        shapes = [raw["shape"] for raw in raws]
        if alike and there and shapes[0] == there[0]["shape"]:
            return _whole(raws[0])
        axis = axis_that_adds_up(shapes, [raw["shape"] for raw in there])
        is_whole = bool(there) and len(self.whole) == 1 and shapes[0] == there[0]["shape"]
        if axis is None and (alike or len(raws) == 1):
            return _whole(raws[0])
        if axis is None and is_whole:
            if "parameters" in path or ".parameters_grad" in self.name:
                return _whole(self.merge.drifted(place, raws, there[0]))
            return _whole(self.merge.partial(place, raws))
        return self._sharded(raws, axis if axis is not None else self._usual_axis(path), path)

    def _usual_axis(self, path: tuple[Any, ...]) -> int:
        """Activations are cut along the last axis, weights along the first, those of row-parallel layers the second."""
        if "parameters" not in path and ".parameters_grad" not in self.name:
            return -1
        return 1 if self.merge.row_parallel(self.name) else 0

    def _sharded(self, raws: Sequence[_Raw], axis: int, path: tuple[Any, ...]) -> _Raw:
        shape = list(raws[0]["shape"])
        if not -len(shape) <= axis < len(shape):
            return _whole(raws[0])
        shape[axis] = sum(raw["shape"][axis] for raw in raws)
        return joined_record(raws, [math.prod(raw["shape"]) for raw in raws], shape)


def _collected(ranks: Sequence[Dump]) -> dict[tuple[Any, ...], _Raw]:
    """Statistics of what went into a collective on the first rank to what came out of it, the same on all ranks."""
    found: dict[tuple[Any, ...], _Raw] = {}
    for name, body in ranks[0].data.items():
        if not name.startswith(_COLLECTIVE) or not isinstance(body, Mapping):
            continue
        given, made = _first_tensor(body.get("input_args")), _first_tensor(body.get("output"))
        given = given or _first_tensor(body.get("input_kwargs"))
        others = [_first_tensor((rank.data.get(name) or {}).get("output")) for rank in ranks[1:]]
        if given and made and all(other and _close(made, other) for other in others):
            found.setdefault(_values(given), made)
    return found


def _first_tensor(node: Any) -> _Raw | None:
    if isinstance(node, dict):
        if is_shape(node.get("shape")) and "dtype" in node:
            return node
        node = [] if isinstance(node.get("type"), str) else list(node.values())
    if isinstance(node, list):
        return next((found for child in node if (found := _first_tensor(child))), None)
    return None


def _values(raw: _Raw) -> tuple[Any, ...]:
    return (str(raw["shape"]), *(as_float(raw.get(name)) for name in STATISTICS))


def _close(left: _Raw, right: _Raw) -> bool:
    if left.get("shape") != right.get("shape"):
        return False
    return all(_near(left.get(name), right.get(name)) for name in STATISTICS)


def _near(left: Any, right: Any) -> bool:
    if left == right or (left != left and right != right):
        return True
    return math.isclose(as_float(left), as_float(right), rel_tol=_CLOSE)


def _apart(norm: float, known: float) -> float:
    """How far a copy is from the other side; one without a norm is farthest."""
    return abs(norm - known) if norm == norm else math.inf


def _make_a_whole(raws: Sequence[_Raw], known: Placement | None) -> bool:
    """Whether the shapes are whole and have the same axes, the cut one among them."""
    if not all(is_shape(raw.get("shape")) for raw in raws):
        return False
    axes = {len(raw["shape"]) for raw in raws}
    return len(axes) == 1 and (known is None or known.axis is None or -min(axes) <= known.axis < min(axes))


def joined_record(raws: Sequence[_Raw], sizes: Sequence[int], shape: Sequence[int]) -> _Raw:
    """The records of parts of ``sizes`` elements as that of one tensor of this ``shape``; a statistic that a part
    lacks is null."""
    statistics: dict[str, Any] = dict.fromkeys(STATISTICS)
    four: list[list[Any]] = [[bounded(raw.get(name)) for name in STATISTICS] for raw in raws]
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for values in four for value in values):
        shards = [
            Shard(values[0], values[1], values[2], values[3], numel) for values, numel in zip(four, sizes, strict=True)
        ]
        statistics = dict(zip(STATISTICS, merged_statistics(shards)[:4], strict=True))
    else:
        for at, name, fold in ((0, "Max", max), (1, "Min", min)):
            values = [found[at] for found in four]
            statistics[name] = fold(values) if all(isinstance(value, (int, float)) for value in values) else None
    frame = {key: value for key, value in raws[0].items() if key != ORDERED}  # does not follow from those of parts
    return _whole({**frame, "shape": list(shape), **statistics})


def _whole(raw: _Raw) -> _Raw:
    return {key: value for key, value in raw.items() if key not in _LOCAL}
