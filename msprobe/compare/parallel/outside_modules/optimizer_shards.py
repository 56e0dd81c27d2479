"""The gradients that optimizers get, all together, where ranks share them as flat shards (ZeRO).

A flat shard belongs to no parameter, so it has no counterpart in a run with another layout. But all shards together
hold what all parameters have there: their extremes, mean and norm are those of one value of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msprobe.compare.after_backward.gradient_trails import Stage, shard_trails
from msprobe.compare.parallel.arrangement import Coordinates, Kind, likely, whole
from msprobe.compare.parallel.identity import Call, Key, Part, RankCalls
from msprobe.compare.parallel.pieces import Piece, joined, piece_of
from msprobe.core.naming import Phase

PATH, _CLASS, _NAME = "optimizer", "Gradients", "all"
_LAST, _BEFORE = 1, 2
"""Stages of a gradient, counted from the optimizer."""
Trails = Mapping[tuple[str, str], Sequence[Stage]]


class _Ways(NamedTuple):
    """The ways of the gradients of a rank to the optimizer, by parameter, or by number where they are shards."""

    place: Coordinates
    trails: Mapping[Any, Sequence[Stage]]  # a parameter is copies or cuts, a shard of a rank is alone


def add_shards(
    sides: tuple[Sequence[RankCalls], Sequence[RankCalls]], trails: tuple[Sequence[Trails], Sequence[Trails]], key: Key
) -> None:
    """Add all gradients as one value where one side has them by parameter and the other one in shards.

    Args:
        sides: the ranks of both sides.
        trails: the ways of the gradients by parameter, for each rank; empty where they are shards.
        key: the identity of the value.
    """
    has = [all(own) and bool(own) for own in trails]
    if has[0] == has[1]:
        return
    ways = [list(_ways(ranks, own)) for ranks, own in zip(sides, trails, strict=True)]
    last, before = ([_together(own, stage) for own in ways] for stage in (_LAST, _BEFORE))
    if None in last or not _of_one_size(last, len(ways[has.index(False)])):
        return
    numel = min(piece.numel for piece in last if piece is not None)
    for ranks, own, piece, earlier in zip(sides, ways, last, before, strict=True):
        assert piece is not None
        body = {_NAME: _record(piece, numel)}
        name = f"{PATH}:{key.function}"
        ranks[0].calls.append(Call(key, name, _CLASS, body, None, 0, Part.UPDATE))
        ranks[0].shards = [stages for way in own[:1] for stages in way.trails.values()]
        ranks[0].before_clipping = None if earlier is None else _without_padding(earlier, numel)


def _ways(ranks: Sequence[RankCalls], trails: Sequence[Trails]) -> Iterator[_Ways]:
    for number, (rank, own) in enumerate(zip(ranks, trails, strict=True)):
        at = rank.place
        shards = enumerate(shard_trails(rank.dump)) if not own else ()
        ways: Mapping[Any, Sequence[Stage]] = own or {(number, index): stages for index, stages in shards}
        yield _Ways((at.tp, at.cp, at.dp, 0, 0), ways)


def _together(ways: Sequence[_Ways], stage: int) -> Piece | None:
    """Return all gradients of a side as one piece, at a stage of their way."""
    grids: dict[Any, dict[Coordinates, Piece]] = {}
    for place, trails in ways:
        for parameter, stages in trails.items():
            piece = piece_of(stages[-min(stage, len(stages))].raw)
            if piece is None:
                return None
            grids.setdefault(parameter, {})[place] = piece
    parts = [whole(grid, likely(grid, Kind.PARAMETER), kind=Kind.PARAMETER) for grid in grids.values()]
    return joined(parts) if parts else None


def _of_one_size(pieces: Sequence[Piece | None], shards: int) -> bool:
    """Return whether both sides have as many elements, up to those that make the shards even."""
    sizes = [piece.numel for piece in pieces if piece is not None]
    return max(sizes) - min(sizes) < shards


def _without_padding(piece: Piece, numel: int) -> Piece:
    mean = None if piece.mean is None else piece.mean * piece.numel / numel
    return replace(piece, numel=numel, mean=mean, merged=True).without_order()


def _record(piece: Piece, numel: int) -> dict[str, Any]:
    return _without_padding(piece, numel).record(None, [numel])


def key_of_all(function: str) -> Key:
    """Return the identity of all gradients together."""
    return Key(PATH, Phase.PARAMETERS_GRAD, 0, 0, function)
