"""How the pieces of one value lie on the ranks and micro batches of each side, so that both sides have one whole.

A side has a grid of pieces, one for each coordinate (tensor, context, data parallelism, micro batch). Along each axis
of the grid the pieces are copies, cuts of a larger tensor, or partial sums. Which of these follows from the values
(copies agree), and from the other side: both wholes have the same number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import product

from msprobe.compare.parallel.pieces import Piece, added, joined
from msprobe.compare.parallel.recorded_parts import common_part, recorded_as

Coordinates = tuple[int, ...]
"""The place of a piece: its number along tensor, context, expert and data parallelism and among the micro batches."""
Grid = Mapping[Coordinates, Piece]
TENSOR, CONTEXT, DATA, MICRO, HOLDER = 0, 1, 2, 3, 4
"""The axes of tensor, context and data parallelism and of micro batches, and along which the holders of a tied
parameter are counted."""


class Kind(Enum):
    """What a value is, which says how pieces that differ can be meant."""

    ACTIVATION = auto()
    PARAMETER = auto()
    GRADIENT_OF_PARAMETER = auto()


class Mode(Enum):
    """What the pieces along one axis are."""

    COPY = auto()
    CUT = auto()
    SUM = auto()
    DRIFTED = auto()
    """Copies that have come apart."""


Modes = tuple[Mode, ...]
"""What the pieces are along each axis."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What the pieces are along each axis, how many elements the whole has, and how far-fetched that is."""

    modes: Modes
    numel: int
    cost: int


def arranged(
    target: Grid, golden: Grid, kind: Kind, values: tuple[Modes | None, Modes | None] = (None, None)
) -> tuple[Arrangement, Arrangement] | None:
    """Return the arrangements of both sides that make wholes of one size; None where no arrangements do.

    ``values`` are, of gradients, the modes of the value that they belong to on each side.
    """
    pairs = (
        (own, other)
        for own, other in product(_arrangements(target, kind, values[0]), _arrangements(golden, kind, values[1]))
        if own.numel == other.numel
    )
    return min(pairs, key=lambda pair: pair[0].cost + pair[1].cost, default=None)


def likely(grid: Grid, kind: Kind, value: Modes | None = None) -> Arrangement:
    """Return the arrangement that the values of one side alone suggest."""
    return min(_arrangements(grid, kind, value), key=lambda each: each.cost)


def why_no_whole(grid: Grid, other: Grid) -> str:
    """Return in words why the pieces of a side make nothing of the size that the other side has."""
    own, wanted = sum(piece.numel for piece in grid.values()), max(piece.numel for piece in other.values())
    if len(other) > 1:
        return f"{len(grid)} pieces of {own} elements, of which the {len(other)} pieces of the other side make no whole"
    relation = "overlap" if own > wanted else "leave a gap"
    return f"{len(grid)} pieces have {own} elements, and the other side has {wanted}: they {relation}"


def whole(grid: Grid, arrangement: Arrangement, other: Piece | None = None, *, kind: Kind = Kind.ACTIVATION) -> Piece:
    """Return what the pieces make; of copies that have come apart the one that is farthest from ``other``.

    Activations that every rank of context parallelism has whole were gathered, in an order of their own.
    """
    gathered = kind is Kind.ACTIVATION and len({place[CONTEXT] for place in grid}) > 1
    gathered = gathered and arrangement.modes[CONTEXT] is not Mode.CUT
    for axis in _spread_axes(grid):
        mode = arrangement.modes[axis]
        grid = {place: _merged(group, mode, other) for place, group in _groups(grid, axis).items()}
    made = next(iter(grid.values()))
    return made.without_order() if gathered else made


def _merged(group: Sequence[Piece], mode: Mode, other: Piece | None) -> Piece:
    if len(group) == 1:
        return group[0]
    if mode is Mode.DRIFTED and other is not None:
        return max(group, key=lambda piece: distance(piece, other))
    return _MERGES[mode](group)


_MERGES: Mapping[Mode, Callable[[Sequence[Piece]], Piece]] = {
    Mode.COPY: lambda group: group[0],
    Mode.CUT: joined,
    Mode.SUM: added,
    Mode.DRIFTED: lambda group: group[0],
}


def distance(piece: Piece, other: Piece) -> float:
    """Return how far the statistics of two pieces are from each other."""
    pairs = [(piece.largest.low, other.largest.low), (piece.smallest.low, other.smallest.low)]
    pairs += [
        (left, right)
        for left, right in ((piece.mean, other.mean), (piece.projection, other.projection))
        if left is not None and right is not None
    ]
    if piece.norm and other.norm:
        pairs.append((piece.norm.low, other.norm.low))
    return sum(abs(left - right) for left, right in pairs)


def _spread_axes(places: Collection[Coordinates]) -> list[int]:
    """Return the axes along which pieces lie at several places; there are few, and most tensors have none."""
    if len(places) == 1:
        return []
    return [axis for axis, coordinates in enumerate(zip(*places, strict=True)) if len(set(coordinates)) > 1]


def _groups(grid: Grid, axis: int) -> dict[Coordinates, list[Piece]]:
    """Return the pieces that differ in their place along one axis only, ascending, by the place without that axis."""
    groups: dict[Coordinates, list[Piece]] = {}
    for place in sorted(grid):
        groups.setdefault((*place[:axis], 0, *place[axis + 1 :]), []).append(grid[place])
    return groups


def _arrangements(grid: Grid, kind: Kind, value: Modes | None) -> Iterator[Arrangement]:
    """Yield every way to see the pieces of a side."""
    sizes = {place: piece.numel for place, piece in grid.items()}
    alone, spread = [Mode.COPY] * len(next(iter(grid))), _spread_axes(grid)
    choices = [list(_choices(grid, axis, kind, value[axis] if value else None)) for axis in spread]
    for chosen in product(*choices):
        modes = alone.copy()
        for axis, (mode, _) in zip(spread, chosen, strict=True):
            modes[axis] = mode
        yield Arrangement(tuple(modes), _numel(sizes, modes), sum(cost for _, cost in chosen))


def _choices(grid: Grid, axis: int, kind: Kind, value: Mode | None) -> Iterator[tuple[Mode, int]]:
    """Yield what the pieces along an axis can be, with a cost: 0 for what the values say.

    A gradient lies as its ``value`` does: in cuts, or as copies or summands where the ranks hold copies of the value.
    """
    groups = _groups(grid, axis).values()
    if all(len(group) == 1 for group in groups):
        yield Mode.COPY, 0
        return
    same_size = all(len({piece.numel for piece in group}) == 1 for group in groups)
    copies = all(group[0].agrees(piece) for group in groups for piece in group[1:])
    stated = [
        common_part([piece.raw for piece in group], tensor_parallel=axis == TENSOR) if axis <= DATA else None
        for group in groups
    ]
    if None not in stated:  # the program says it
        whole_on_each = all(part.dim is None for part in stated if part is not None)
        yield (Mode.CUT if not whole_on_each else Mode.COPY if copies else Mode.DRIFTED), 0
        return
    recorded = {recorded_as([piece.raw for piece in group]) for group in groups} if axis <= DATA else set()
    if recorded in ({"Replicate"}, {"Partial"}):
        yield Mode.SUM if "Partial" in recorded else Mode.COPY if copies else Mode.DRIFTED, 0
        return
    if copies:
        yield Mode.COPY, 4 if value is Mode.CUT else 0
    yield Mode.CUT, 4 if value is Mode.COPY else 0 if value is Mode.CUT or not copies else 1
    if same_size and kind is Kind.PARAMETER:
        if not copies:
            yield Mode.DRIFTED, 3
    elif same_size and not copies:
        yield Mode.SUM, 2
    elif same_size and kind is Kind.GRADIENT_OF_PARAMETER:
        yield Mode.SUM, 3


def _numel(sizes: Mapping[Coordinates, int], modes: Sequence[Mode]) -> int:
    for axis in _spread_axes(sizes):
        mode, merged = modes[axis], dict[Coordinates, int]()
        for place, size in sizes.items():
            key = (*place[:axis], 0, *place[axis + 1 :])
            merged[key] = merged.get(key, 0) + size if mode is Mode.CUT else max(merged.get(key, 0), size)
        sizes = merged
    return next(iter(sizes.values()))
