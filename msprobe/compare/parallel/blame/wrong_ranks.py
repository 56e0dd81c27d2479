"""Which ranks of a merged model hold the parts that make a value wrong.

Copies are judged one by one, and so are the parts of which the other side has the same ones: a rank is cleared where
its part is that of the other side. A part of a whole that the other side has in one piece cannot be judged by itself.
Then the parameters of which the ranks hold copies tell: a rank whose copies have come apart from those of the others
and of the golden run. Where they do not either, all ranks that hold a part are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msprobe.compare.parallel.arrangement import (
    MICRO,
    Arrangement,
    Coordinates,
    Grid,
    Kind,
    Mode,
    arranged,
    distance,
    whole,
)
from msprobe.compare.parallel.identity import Call, Key, RankCalls
from msprobe.compare.parallel.merged_dump import WrongRanks
from msprobe.compare.parallel.outside_modules.outside_calls import close
from msprobe.compare.parallel.pieces import Piece, piece_of
from msprobe.compare.records.parameter_names import with_pytorch_parameter
from msprobe.core.naming import Phase
from msprobe.core.store.record_walk import INPUT, PARAMETER, leaves
from msprobe.trace.leaves import slot_of

_Calls = Mapping[Key, Mapping[Coordinates, Call]]
_STAGE = 5
_CLEARED = 0.1
"""A part is cleared where its distance to the other side is at most this share of the farthest one."""
_ONLY = "no other rank holds it"
_ALL = "each of them holds it wrong"
_OTHERS_AGREE = "what the other ranks hold of it is as in the golden run"
_UNCLEAR = "each of them holds a part of it, and nothing recorded tells which part is wrong"
_COPIES = "copies of parameters have come apart there from those of the golden run"


@dataclass(frozen=True, slots=True)
class RanksOfValues:
    """The ranks of a target that several ranks hold.

    Args:
        ranks: the calls of the ranks of the target.
        target: its calls by identity.
        golden: those of the golden run.
    """

    ranks: Sequence[RankCalls]
    target: _Calls
    golden: _Calls

    def wrong(self, name: str, key: Key, slot: str | None) -> WrongRanks:
        """Return the ranks to blame for the value at ``slot`` of an identity, which both dumps have under ``name``;
        those that make the call without a slot."""
        holders = self._numbers(list(self.target.get(key, ())))
        if slot is None or len(holders) < 2:
            return WrongRanks(holders, _ONLY if len(holders) == 1 else _ALL)
        judged = self._judged(name, key, slot) or WrongRanks(holders, _UNCLEAR)
        if judged.words != _UNCLEAR:
            return judged
        apart = self._ranks_with_other_copies()
        own = tuple(rank for rank in judged.numbers if rank in apart)
        return WrongRanks(own, _COPIES) if own else judged

    def _numbers(self, places: Sequence[Coordinates]) -> tuple[int, ...]:
        """Return the ranks that have these places, ascending."""
        stages = 1 + max(rank.place.pp for rank in self.ranks)
        known: dict[Coordinates, int] = {
            (rank.place.tp, rank.place.cp, rank.place.dp, rank.place.pp): rank.dump.place.number or 0
            for rank in self.ranks
        }
        numbers = {known.get((*place[:MICRO], place[_STAGE] % stages)) for place in places}
        return tuple(sorted(number for number in numbers if number is not None))

    def _judged(self, name: str, key: Key, slot: str) -> WrongRanks | None:
        """Return what the parts of one value say; None where they make no whole."""
        grid, stages = _grid(self.target.get(key, {}), name, slot)
        other, _ = _grid(self.golden.get(key, {}), name, slot)
        kind = _kind(key, slot)
        pair = arranged(grid, other, kind) if grid and other else None
        if pair is None:
            return None
        parts = list(_parts((grid, other), pair, kind))
        farthest = max(part.distance for part in parts)
        wrong = [part for part in parts if not (part.close and part.distance <= _CLEARED * farthest)] or parts
        own, every = ([(*place, stages[place]) for part in some for place in part.places] for some in (wrong, parts))
        numbers = self._numbers(own)
        if numbers != self._numbers(every):
            return WrongRanks(numbers, _OTHERS_AGREE)
        alone = all(len({place[:MICRO] for place in part.places}) == 1 for part in wrong)
        return WrongRanks(numbers, _ALL if alone else _UNCLEAR)

    def _ranks_with_other_copies(self) -> set[int]:
        """Return the ranks whose copies of parameters are not those of the golden run, where other copies are."""
        found: set[int] = set()
        for key, calls in self.target.items():
            if key.phase is not Phase.FORWARD or key.turn or key.micro or len(calls) < 2:
                continue
            for name in next(iter(calls.values())).body.get("parameters") or ():
                judged = self._judged("", key, f"parameters.{name}")
                if judged is not None and judged.words == _OTHERS_AGREE:
                    found.update(judged.numbers)
        return found


@dataclass(frozen=True, slots=True)
class _Part:
    """Places whose pieces make one part of a value, and how far it is from the same part of the other side."""

    places: tuple[Coordinates, ...]
    distance: float
    close: bool


def _parts(grids: tuple[Grid, Grid], pair: tuple[Arrangement, Arrangement], kind: Kind) -> Iterator[_Part]:
    """Yield the smallest parts of the target that can be compared with a part of the other side."""
    shared = _shared_axes(grids, pair)
    groups = [_by_axes(side, shared) for side in grids]
    for at, own in groups[0].items():
        golden = groups[1].get(at)
        if golden is None:
            yield _Part(tuple(own), float("inf"), close=False)
            continue
        reference = whole(golden, pair[1], kind=kind)
        copied = _is_copied(pair[0], except_for=shared)
        pieces = [{place: piece} for place, piece in own.items()] if copied else [own]
        for piece in pieces:
            made = whole(piece, pair[0], reference, kind=kind)
            yield _Part(tuple(piece), distance(made, reference), close(made, reference))


def _is_copied(arrangement: Arrangement, except_for: Sequence[int] = ()) -> bool:
    """Return whether each rank has the whole along all axes but some."""
    modes = (mode for axis, mode in enumerate(arrangement.modes) if axis not in except_for)
    return all(mode in (Mode.COPY, Mode.DRIFTED) for mode in modes)


def _shared_axes(grids: tuple[Grid, Grid], pair: tuple[Arrangement, Arrangement]) -> list[int]:
    """Return the axes along which both sides are spread over the same places in the same way."""
    columns = [[set(column) for column in zip(*grid, strict=True)] for grid in grids]
    return [
        axis
        for axis, (own, other) in enumerate(zip(*columns, strict=True))
        if len(own) > 1 and own == other and pair[0].modes[axis] is pair[1].modes[axis]
    ]


def _by_axes(grid: Grid, axes: Sequence[int]) -> dict[tuple[int, ...], dict[Coordinates, Piece]]:
    """Return the pieces by their places along some axes."""
    groups: dict[tuple[int, ...], dict[Coordinates, Piece]] = {}
    for place, piece in grid.items():
        groups.setdefault(tuple(place[axis] for axis in axes), {})[place] = piece
    return groups


def _kind(key: Key, slot: str) -> Kind:
    if key.phase is Phase.PARAMETERS_GRAD:
        return Kind.PARAMETER if key.function else Kind.GRADIENT_OF_PARAMETER
    return Kind.PARAMETER if slot.startswith(f"{PARAMETER}.") else Kind.ACTIVATION


def _grid(calls: Mapping[Coordinates, Call], name: str, slot: str) -> tuple[Grid, dict[Coordinates, int]]:
    """Return the pieces of a value by place without the stage, and the stage that each of them is from: of a module
    around several stages the inputs are those of the stage where data comes in."""
    grid, stages = {}, {}
    common = with_pytorch_parameter(slot)
    backward = any(call.key.phase is not Phase.FORWARD for call in calls.values())
    last_stage_enters = slot.startswith(INPUT) is backward
    for place in sorted(calls, key=lambda at: at[_STAGE], reverse=not last_stage_enters):
        body = calls[place].body
        raws = (leaf.raw for leaf in leaves(name, body) if with_pytorch_parameter(slot_of(leaf)) == common)
        piece = piece_of(next(raws, None))
        if piece is not None:
            grid[place[:_STAGE]], stages[place[:_STAGE]] = piece, place[_STAGE]
    return grid, stages
