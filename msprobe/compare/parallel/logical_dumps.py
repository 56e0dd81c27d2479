"""Two dumps in which every value stands once, whole, under the same name, whatever layouts the runs had.

The calls of modules of all ranks get identities (``identity``); the pieces of each value are arranged beside those of
the other side (``arrangement``), and their wholes make a record. Calls of functions are left out: another layout makes
other calls, and values of modules decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

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
from msprobe.compare.parallel.gradient_scale import gradient_scale
from msprobe.compare.parallel.identity import Call, Key, Part, RankCalls, rank_calls
from msprobe.compare.parallel.layout import Coordinates as RankPlace
from msprobe.compare.parallel.layout import Replica
from msprobe.compare.parallel.merged_dump import MergedDump, Suspect
from msprobe.compare.parallel.optimizer_gradients import AT_OPTIMIZER, WrongUpdates, add_optimizer_gradients
from msprobe.compare.parallel.outside_calls import OutsideCalls
from msprobe.compare.parallel.pieces import Piece, piece_of, shards
from msprobe.compare.parallel.roundings import rounded_alike
from msprobe.compare.parallel.tied_parameters import tie
from msprobe.compare.records.leaves import COPIES_DIFFER, NO_WHOLE, NOT_ADDED, PIECES
from msprobe.core.naming import ModuleName, Phase
from msprobe.core.store.reader import Dump, Place, load_dump
from msprobe.core.store.record_walk import FED, is_tensor

_Path = tuple[Any, ...]
_EXPERT = "expert"
_LISTED = 3
LEFT_OUT = "ranks are merged by the values of modules; calls of functions are left out, and explain only what is wrong"


@dataclass(slots=True)
class Side:
    """One run: the calls of each identity with their coordinates.

    Attributes:
        ranks: the calls of the ranks.
        calls: by identity, the calls that hold pieces of it.
        sharing: how many data-parallel ranks share parameters, as the user says; 1 where the records tell.
    """

    ranks: list[RankCalls]
    calls: dict[Key, dict[Coordinates, Call]] = field(default_factory=dict)
    sharing: int = 1

    def gather(self, *, apart: bool) -> None:
        """Collect the calls by identity; micro batches are pieces unless they are kept ``apart``."""
        self.calls = {}
        for rank in self.ranks:
            place = rank.place
            for call in rank.calls:
                micro = 0 if apart else call.key.micro
                key = call.key if apart else call.key._replace(micro=0)
                at = (place.tp, place.cp, place.dp, micro, 0, call.stage)
                self.calls.setdefault(key, {}).setdefault(at, call)


def logical_pair(left: Place, right: Place) -> tuple[Dump, Dump, list[str]] | None:
    """Return the dumps of two models with every value whole, and lines about what was left out.

    The result is None where a side records no calls of modules.

    Raises:
        ReadError: a document is damaged.
    """
    target, golden = side_of(left), side_of(right)
    if not all(any(rank.calls for rank in side.ranks) for side in (target, golden)):
        return None
    add_optimizer_gradients((target.ranks, golden.ranks))
    counts = [max(rank.micro for rank in side.ranks) for side in (target, golden)]
    apart = counts[0] == counts[1]
    for side in (target, golden):
        side.gather(apart=apart)
    tie(target.calls, golden.calls)
    return _Merge(target, golden, apart).dumps()


def side_of(place: Place) -> Side:
    """Return the run of a place: one process, or the ranks of a model."""
    if not isinstance(place, Replica):
        return Side(rank_calls([load_dump(place)], [RankPlace()], 1))
    members = [member for stage in place.members for member in stage]
    at = [one for stage in place.coordinates for one in stage]
    return Side(rank_calls([load_dump(member) for member in members], at, place.chunks), sharing=place.sharing)


def is_expert_of_another_share(key: Key, target: Side, golden: Side) -> bool:
    """Return whether the rows of a call come in an order of their own on each side: tokens of an expert, where the
    sides share tokens among experts in another way."""
    if not any(_EXPERT in before and part.isdigit() for before, part in pairwise(key.path.split("."))):
        return False
    shared = [{(rank.place.ep, rank.place.dp, rank.place.cp) for rank in side.ranks} for side in (target, golden)]
    return shared[0] != shared[1]


@dataclass(slots=True)
class PartialSums:
    """Results of module calls of which the ranks hold summands, and the summands that calls were given."""

    results: list[tuple[dict[str, Any], tuple[float, ...]]] = field(default_factory=list)
    given: set[tuple[float, ...]] = field(default_factory=set)

    def add(self, record: dict[str, Any], digest: tuple[float, ...], *, received: bool) -> None:
        """Remember a merged value; ``digest`` tells which summands it has, ``received`` whether a call was given it."""
        if received:
            self.given.add(digest)
        else:
            self.results.append((record, digest))

    def mark(self) -> None:
        """Mark the results with which other modules went on."""
        for record, digest in self.results:
            if digest in self.given:
                record[PIECES] = NOT_ADDED


@dataclass(slots=True)
class _Merge:
    """The merge of both sides: records by identity, and what could not be put together. ``apart`` says whether micro
    batches are kept apart."""

    target: Side
    golden: Side
    apart: bool
    records: tuple[dict[Key, dict[str, Any]], dict[Key, dict[str, Any]]] = field(default_factory=lambda: ({}, {}))
    unclear: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    modes: dict[tuple[int, Key, _Path], Modes] = field(default_factory=dict)
    partial_sums: tuple[PartialSums, PartialSums] = field(default_factory=lambda: (PartialSums(), PartialSums()))

    def dumps(self) -> tuple[Dump, Dump, list[str]]:
        sides = self.target, self.golden
        keys = dict.fromkeys([*self.golden.calls, *self.target.calls])
        forward = [key for key in keys if key.phase is Phase.FORWARD]
        rest = [key for key in keys if key.phase is not Phase.FORWARD]
        for key in forward:
            self._merge_calls(key, 1.0)
        scale = gradient_scale(*(side.calls for side in sides))
        for key in rest:
            self._merge_calls(key, 1.0 if key.function else scale)
        for sums in self.partial_sums:
            sums.mark()
        names = self._names(keys)
        made = [_dump(side, records, names) for side, records in zip(sides, self.records, strict=True)]
        if {dump.task for dump in made} == {"tensor", "statistics"}:  # tensors are merged by their statistics
            made = [replace(dump, task="statistics") for dump in made]
        suspects = _Suspects((self.target, self.golden), {name: key for key, name in names.items()}, self.apart)
        alike = rounded_alike(self.target.ranks, self.golden.ranks)
        rounded = frozenset(name for key, name in names.items() if key.path in alike and key.phase is Phase.FORWARD)
        reduced = frozenset(name for key, name in names.items() if key.function == AT_OPTIMIZER)
        made[0] = replace(made[0], suspect=suspects.of, update=suspects.of_update, rounded=rounded, reduced=reduced)
        notes = [
            f"{side}: {len(places)} values make no whole ({'; '.join(places[:_LISTED])})"
            for side, places in zip(("target", "golden run"), self.unclear, strict=True)
            if places
        ]
        return made[0], made[1], [LEFT_OUT, *notes]

    def _names(self, keys: Collection[Key]) -> dict[Key, str]:
        """Return the names that identities get in both dumps."""
        numbers: dict[Key, int] = {}
        behind: dict[tuple[str, Phase], int] = {}
        for key in (key for key in keys if not key.function):
            turns = 1 + max(each.turn for each in self._turns(key))
            numbers[key] = key.micro * turns + key.turn
            behind[key.path, key.phase] = max(behind.get((key.path, key.phase), 0), numbers[key] + 1)
        names = {}
        for key in keys:
            call = next(iter((self.golden.calls.get(key) or self.target.calls[key]).values()))
            number = numbers.get(key, behind.get((key.path, key.phase), 0))
            names[key] = str(ModuleName("Module", key.path, call.cls, key.phase, number))
        return names

    def _turns(self, key: Key) -> Iterator[Key]:
        turn = 0
        while key._replace(turn=turn) in self.golden.calls or key._replace(turn=turn) in self.target.calls:
            yield key._replace(turn=turn)
            turn += 1

    def _merge_calls(self, key: Key, scale: float) -> None:
        calls = self.target.calls.get(key, {}), self.golden.calls.get(key, {})
        bodies = [_across_stages(own) for own in calls]
        for side, own in enumerate(bodies):
            if own:
                other = bodies[1 - side]
                factors = (1.0 / scale, 1.0) if side == 0 else (1.0, 1.0 / scale)
                self.records[side][key] = self._record(key, side, (own, other), factors)

    def _record(
        self,
        key: Key,
        side: int,
        bodies: tuple[Mapping[Coordinates, Any], Mapping[Coordinates, Any]],
        factors: tuple[float, float],
    ) -> dict[str, Any]:
        walk = _Walk(self, key, side, factors)
        record: dict[str, Any] = walk.node(dict(bodies[0]), dict(bodies[1]), ())
        return record


@dataclass(slots=True)
class _Suspects:
    """What makes a wrong input outside of modules, by the name of the module call that gets it."""

    sides: tuple[Side, Side]
    keys: Mapping[str, Key]
    apart: bool

    def of(self, name: str) -> Suspect | None:
        key = self.keys.get(name)
        calls = {} if key is None else self.sides[0].calls.get(key, {})
        if key is None or not calls:
            return None
        if key.function:
            return None
        outside = OutsideCalls(self.sides[0].ranks, self.sides[1].ranks, apart=self.apart)
        return outside.suspect(key, next(iter(calls.values())))

    def of_update(self, name: str) -> Suspect | None:
        """Return what makes a gradient wrong that the optimizer gets; None for other entries."""
        if getattr(self.keys.get(name), "function", "") != AT_OPTIMIZER:
            return None
        key, suspect = WrongUpdates(self.sides[0].ranks, self.sides[1].ranks).suspect()
        entry = next((entry for entry, own in self.keys.items() if own == key), name)
        return replace(suspect, entry=entry)


@dataclass(slots=True)
class _Walk:
    """The walk over the records of one identity. ``factors`` are multiplied to the tensors of the own side and of the
    other one."""

    merge: _Merge
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
            return {key: self.node(_at(own, key), _at(other, key), (*path, key)) for key in first}
        if isinstance(first, list):
            return [self.node(_at(own, index), _at(other, index), (*path, index)) for index in range(len(first))]
        return first

    def _tensor(self, own: Mapping[Coordinates, Any], other: Mapping[Coordinates, Any], path: _Path) -> Any:
        factors = self._factors(own, other)
        kind, sides = self._kind(path), (self.merge.target, self.merge.golden)
        sharing = [1 if kind is Kind.ACTIVATION else sides[side].sharing for side in (self.side, 1 - self.side)]
        grid, others = _grid(own, factors[0], sharing[0]), _grid(other, factors[1], sharing[1])
        first = next(iter(own.values()))
        if grid is None:
            return dict(first)
        value = self._value(path)
        if others is None:
            return whole(grid, likely(grid, kind)).record(None, first["shape"])
        modes = self.merge.modes
        values = [modes.get((side, *value)) if value else None for side in (self.side, 1 - self.side)]
        pair = arranged(grid, others, kind, (values[0], values[1]))
        if pair is None:
            place = ".".join(map(str, (self.key.path, self.key.phase.value, *path)))
            self.merge.unclear[self.side].append(f"{place}: {why_no_whole(grid, others)}")
            return {**first, NO_WHOLE: True, **dict.fromkeys(("Max", "Min", "Mean", "Norm", "Projection"))}
        right = whole(others, pair[1], kind=kind)
        left = whole(grid, pair[0], right, kind=kind)
        if (
            left.projection is None
            or right.projection is None
            or is_expert_of_another_share(self.key, self.merge.target, self.merge.golden)
        ):
            left = left.without_order()
        if self.key.phase is Phase.FORWARD:
            modes[self.side, self.key, path] = pair[0].modes
        record = left.record(right, _shape(left, right))
        if FED in first:  # the rank whose live tensor was farthest from what it was fed
            record[FED] = max(node.get(FED, 0.0) for node in own.values())
        if Mode.DRIFTED in pair[0].modes:
            record[PIECES] = COPIES_DIFFER
        if kind is Kind.ACTIVATION and pair[0].modes[TENSOR] is Mode.SUM and pair[1].modes[TENSOR] is not Mode.SUM:
            self.merge.partial_sums[self.side].add(record, _digest(grid), received=path[0] != "output")
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
    """Return what is below ``key`` in each node that has it."""
    below = {}
    for place, node in nodes.items():
        has = key in node if isinstance(node, dict) else isinstance(node, list) and key < len(node)
        if has:
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


def _across_stages(calls: Mapping[Coordinates, Call]) -> dict[Coordinates, Mapping[str, Any]]:
    """Return the records of an identity by coordinates without the stage; a module that several stages have (one around
    the layers) takes its inputs from the stage where data comes in, and its results from the last one."""
    by_rank: dict[Coordinates, list[Call]] = {}
    for place in sorted(calls, key=lambda at: at[-1]):
        by_rank.setdefault(place[:-1], []).append(calls[place])
    return {place: _joined_stages([call.body for call in own]) for place, own in by_rank.items()}


def _joined_stages(bodies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    from msprobe.compare.parallel.by_name.pipeline import join_stage_records

    result = bodies[0]
    for body in bodies[1:]:
        result = join_stage_records(result, body)
    return result


def _dump(side: Side, records: Mapping[Key, dict[str, Any]], names: Mapping[Key, str]) -> MergedDump:
    first = side.ranks[0].dump
    construct: dict[str, Any] = {}
    stacks: dict[str, list[str]] = {}
    by_name = [{call.name: call.key for call in rank.calls} for rank in side.ranks]
    known = set(records)
    for rank, keys in zip(side.ranks, by_name, strict=True):
        for call in rank.calls:
            key = _kept(call.key, known)
            if key not in known:
                continue
            parent = keys.get(call.parent or "")
            parent = None if parent is None else _kept(parent, known)
            construct.setdefault(names[key], None if parent is None else names[parent])
            if call.name in rank.dump.stacks:
                stacks.setdefault(names[key], rank.dump.stacks[call.name])
    data = {names[key]: records[key] for key in _ordered(side, known)}
    shared = {each.name: getattr(first, each.name) for each in fields(Dump)}
    return MergedDump(**{**shared, "data": data, "construct": construct, "stacks": stacks})


def _kept(key: Key, known: Iterable[Key]) -> Key:
    return key if key in known else key._replace(micro=0)


def _ordered(side: Side, known: set[Key]) -> list[Key]:
    """Return the identities in the order of execution of one model: forward from the first stage on, then backward from
    the last stage on."""
    stages = 1 + max((call.stage for rank in side.ranks for call in rank.calls), default=0)
    places: dict[Key, tuple[int, int, int, int]] = {}
    for rank in side.ranks:
        for position, call in enumerate(rank.calls):
            key = _kept(call.key, known)
            stage = stages - call.stage if call.part is Part.BACKWARD else call.stage
            at = (int(call.part), key.micro, stage, position)
            if key not in places or at[2] > places[key][2]:  # a module around several stages ends with the last one
                places[key] = at
    return sorted(known & places.keys(), key=places.__getitem__)
