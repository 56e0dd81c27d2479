"""The whole values of one call of a module, from the pieces that the ranks of one side recorded of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msprobe.compare.parallel.arrangement import (
    CONTEXT,
    DATA,
    HOLDER,
    TENSOR,
    Coordinates,
    Grid,
    Kind,
    Mode,
    Modes,
    arranged,
    likely,
    whole,
    why_no_whole,
)
from msprobe.compare.parallel.by_identity.side import is_expert
from msprobe.compare.parallel.identity import Key
from msprobe.compare.parallel.pieces import Piece, lacks_order, lost_statistics, piece_of, shards
from msprobe.compare.records.parameter_names import name_among, pytorch_parameter
from msprobe.core.naming import Phase
from msprobe.core.store.record_walk import FED, is_tensor
from msprobe.core.tensors.projection import KEY as PROJECTION
from msprobe.trace.leaves import COPIES_DIFFER, NO_WHOLE, NOT_ADDED, PIECES, is_shape

_Path = tuple[Any, ...]
_Digest = tuple[float, ...]
"""Numbers that tell some summands from others."""


class _Result(NamedTuple):
    key: Key
    record: dict[str, Any]
    digest: _Digest


@dataclass(slots=True)
class PartialSums:
    """Results of module calls of which the ranks hold summands, and the summands that calls were given."""

    results: list[_Result] = field(default_factory=list)
    given: set[_Digest] = field(default_factory=set)

    def add(self, key: Key, record: dict[str, Any], digest: _Digest, *, received: bool) -> None:
        """Remember a merged value; ``digest`` tells which summands it has, ``received`` whether a call was given it."""
        if received:
            self.given.add(digest)
        else:
            self.results.append(_Result(key, record, digest))

    def mark(self) -> None:
        """Mark the results with which other modules went on."""
        for result in self.results:
            if result.digest in self.given:
                result.record[PIECES] = NOT_ADDED

    def makers(self, names: Mapping[Key, str]) -> dict[str, str]:
        """Return the forward calls whose results are summands, in the order of execution, each with the first call that
        returned the same ones: a module around it passes them on."""
        first: dict[_Digest, str] = {}
        forward = [result for result in self.results if result.key.phase is Phase.FORWARD]
        return {names[result.key]: first.setdefault(result.digest, names[result.key]) for result in forward}


@dataclass(slots=True)
class MergedValues:
    """What the merge of two sides knows of the values of all calls.

    Attributes:
        sharing: by side, how many data-parallel ranks share parameters.
        other_experts: whether the sides share tokens among experts in another way.
        unclear: by side, the values that make no whole.
        modes: by side, call and path, what the ranks hold of a value in the forward pass.
        partial_sums: by side, the results of which ranks hold summands.
    """

    sharing: tuple[int, int]
    other_experts: bool
    unclear: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    modes: dict[tuple[int, Key, _Path], Modes] = field(default_factory=dict)
    partial_sums: tuple[PartialSums, PartialSums] = field(default_factory=lambda: (PartialSums(), PartialSums()))


@dataclass(slots=True)
class ValueMerge:
    """The merge of the values of one identity: a walk over its records on the ranks of one side, beside those of the
    other one. ``factors`` are multiplied to the tensors of the own side and of the other one."""

    merged: MergedValues
    key: Key
    side: int
    factors: tuple[float, float]

    def node(self, own: Mapping[Coordinates, Any], other: Mapping[Coordinates, Any], path: _Path) -> Any:
        """Return what the nodes at one path, by coordinates, make."""
        first = next(iter(own.values()))
        if is_tensor(first):
            return self._tensor(own, other, path)
        if isinstance(first, dict):
            if isinstance(first.get("type"), str):
                return self._argument(own, other)
            return {key: self.node(_at(own, key), _at(other, key), (*path, pytorch_parameter(key))) for key in first}
        if isinstance(first, list):
            return [self.node(_at(own, index), _at(other, index), (*path, index)) for index in range(len(first))]
        return first

    def _tensor(self, own: Mapping[Coordinates, Any], other: Mapping[Coordinates, Any], path: _Path) -> Any:
        """Return the record of the whole; where pieces of a side lost statistics, one that cannot be compared."""
        lost = [lost_statistics(nodes.values()) for nodes in (own, other)]
        if lost == [None, None]:
            return self._merged(own, other, path)
        firsts = [next(iter(nodes.values())) for nodes in (own, other) if nodes]
        shapes = [first["shape"] for first in firsts if is_tensor(first) and is_shape(first["shape"])]
        return {**firsts[0], "shape": max(shapes, key=math.prod, default=firsts[0]["shape"]), **(lost[0] or {})}

    def _merged(self, own: Mapping[Coordinates, Any], other: Mapping[Coordinates, Any], path: _Path) -> Any:
        factors = self._factors(own, other)
        kind = self._kind(path)
        sharing = [1 if kind is Kind.ACTIVATION else self.merged.sharing[side] for side in (self.side, 1 - self.side)]
        grid, others = _grid(own, factors[0], sharing[0]), _grid(other, factors[1], sharing[1])
        first = next(iter(own.values()))
        if grid is None:
            return dict(first)
        value = self._value(path)
        if others is None:
            return whole(grid, likely(grid, kind)).record(None, first["shape"])
        modes = self.merged.modes
        values = [modes.get((side, *value)) if value else None for side in (self.side, 1 - self.side)]
        pair = arranged(grid, others, kind, (values[0], values[1]))
        if pair is None:
            place = ".".join(map(str, (self.key.path, self.key.phase.value, *path)))
            self.merged.unclear[self.side].append(f"{place}: {why_no_whole(grid, others)}")
            return {**first, NO_WHOLE: True, **dict.fromkeys(("Max", "Min", "Mean", "Norm", "Projection"))}
        right = whole(others, pair[1], kind=kind)
        left = whole(grid, pair[0], right, kind=kind)
        order_is_lost = [lacks_order(nodes.values()) for nodes in (own, other)]
        if left.projection is None or self._unordered() or (right.projection is None and not order_is_lost[1]):
            left = left.without_order()
        if self.key.phase is Phase.FORWARD:
            modes[self.side, self.key, path] = pair[0].modes
        record = left.record(right, _shape(left, right)) | ({PROJECTION: None} if order_is_lost[0] else {})
        if FED in first:  # the rank whose live tensor was farthest from what it was fed
            record[FED] = max(node.get(FED, 0.0) for node in own.values())
        if Mode.DRIFTED in pair[0].modes:
            record[PIECES] = COPIES_DIFFER
        if kind is Kind.ACTIVATION and pair[0].modes[TENSOR] is Mode.SUM and pair[1].modes[TENSOR] is not Mode.SUM:
            self.merged.partial_sums[self.side].add(self.key, record, _digest(grid), received=path[0] != "output")
        return record

    def _factors(self, own: Mapping[Coordinates, Any], other: Mapping[Coordinates, Any]) -> tuple[float, float]:
        """Return what the pieces of both sides are multiplied with. Gradients of sharded parameters are recorded after
        they were averaged over the ranks, those of others before."""
        if self.key.phase is not Phase.PARAMETERS_GRAD or self.key.function:
            return self.factors
        averaged = [any(_is_placed(node) for node in nodes.values()) for nodes in (own, other)]
        if averaged == [False, False] or not other:
            return self.factors
        first, second = (
            1.0 if done else 1.0 / _samples(nodes) for done, nodes in zip(averaged, (own, other), strict=True)
        )
        return first, second

    def _unordered(self) -> bool:
        """Return whether the rows of this call come in an order of their own on each side: tokens of an expert."""
        return self.merged.other_experts and is_expert(self.key)

    def _kind(self, path: _Path) -> Kind:
        if self.key.phase is Phase.PARAMETERS_GRAD:
            return Kind.PARAMETER if self.key.function else Kind.GRADIENT_OF_PARAMETER
        return Kind.PARAMETER if path and path[0] == "parameters" else Kind.ACTIVATION

    def _value(self, path: _Path) -> tuple[Key, _Path] | None:
        """Return the call and the path of the value that a gradient belongs to."""
        if self.key.phase is Phase.FORWARD:
            return None
        forward = self.key._replace(phase=Phase.FORWARD, function="")
        if self.key.phase is Phase.PARAMETERS_GRAD:
            return forward, ("parameters", path[0])
        return forward, ("output" if path[0] == "input" else "input_args", *path[1:])

    def _argument(self, own: Mapping[Coordinates, Any], other: Mapping[Coordinates, Any]) -> Any:
        """Return the argument; one that the other side has on one of its ranks is the same."""
        values = list(other.values())
        return next((one for one in own.values() if one in values), next(iter(own.values())))


def _at(nodes: Mapping[Coordinates, Any], key: Any) -> dict[Coordinates, Any]:
    """Return what is below ``key`` in each node that has it, by the name of this or of the other framework."""
    below = {}
    for place, node in nodes.items():
        if isinstance(node, dict):
            name = key if key in node else name_among(node, key)
            if name is not None:
                below[place] = node[name]
        elif isinstance(node, list) and key < len(node):
            below[place] = node[key]
    return below


def _grid(nodes: Mapping[Coordinates, Any], factor: float, sharing: int) -> Grid | None:
    """Return the pieces at one path, times ``factor``; None where not all of them are tensors with statistics.
    ``sharing`` is the number of data-parallel ranks that share them where no placement is recorded."""
    grid = {}
    for place, node in nodes.items():
        piece = piece_of(node)
        if piece is None:
            return None
        grid[_in_mesh(place, node, sharing)] = piece.scaled(factor)
    return grid or None


def _digest(grid: Grid) -> tuple[float, ...]:
    """Return numbers that tell these pieces from others."""
    return tuple(grid[place].norm.low if grid[place].norm else grid[place].largest.low for place in sorted(grid))  # type: ignore[union-attr]


def _is_placed(node: Any) -> bool:
    return isinstance(node, dict) and "placements" in node


def _in_mesh(place: Coordinates, node: Any, sharing: int) -> Coordinates:
    """Return the place of a piece: replicas of a sharded tensor hold it as the holders of a tied parameter do."""
    parts = max(shards(node), sharing)
    if parts == 1:
        return place
    replica, shard = divmod(place[DATA], parts)
    return (*place[:DATA], shard, *place[DATA + 1 : HOLDER], replica)


def _samples(nodes: Mapping[Coordinates, Any]) -> int:
    """Return how many ranks have samples or tokens of their own."""
    return len({(place[CONTEXT], place[DATA]) for place in nodes})


def _shape(own: Piece, other: Piece) -> list[int]:
    """Return the shape of the whole: recorded by a side that has it in one piece, or the longest axes of both."""
    if not own.merged:
        return list(own.raw["shape"])
    if not other.merged:
        return list(other.raw["shape"])
    shapes = own.raw["shape"], other.raw["shape"]
    if len(shapes[0]) == len(shapes[1]):
        longest = list(map(max, *shapes))
        product = 1
        for length in longest:
            product *= length
        if product == own.numel:
            return longest
    return [own.numel]
