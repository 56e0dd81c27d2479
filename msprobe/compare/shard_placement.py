"""Which axis of a tensor is cut, from its recorded placement or from shapes that add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_Shape = Sequence[int]


class Placement(NamedTuple):
    """``axis`` is the cut axis, None for a copy; ``partial`` says that the ranks hold summands."""

    axis: int | None
    partial: bool = False


def recorded_placement(raws: Sequence[Mapping[str, Any]]) -> Placement | None:
    """The placement all ranks recorded; None where there is none, or one of more axes than can be merged here."""
    placements = raws[0].get("placements")
    if not isinstance(placements, list) or any(raw.get("placements") != placements for raw in raws):
        return None
    if not all(isinstance(placement, Mapping) for placement in placements):
        return None
    if any("Partial" in placement for placement in placements):
        return Placement(None, partial=True)
    cuts = [placement["Shard"] for placement in placements if "Shard" in placement]
    axes = [cut.get("dim") if isinstance(cut, Mapping) else None for cut in cuts]
    if len(axes) > 1 or not all(type(axis) is int for axis in axes):
        return Placement(None, partial=True)
    return Placement(axes[0] if axes else None)


def local_sizes(shape: _Shape, axis: int, parts: int) -> list[int]:
    """Elements per rank of a tensor of this whole shape: pieces of equal length, the last ones shorter or empty."""
    length = shape[axis]
    piece = -(-length // parts)
    rest = 1
    for at, size in enumerate(shape):
        rest *= size if at != axis % len(shape) else 1
    return [max(0, min(piece, length - piece * part)) * rest for part in range(parts)]


def axis_that_adds_up(shapes: Sequence[_Shape], others: Sequence[_Shape]) -> int | None:
    """The axis along which the shapes of the ranks make the shape of the other side; None when there is no such one.

    ``others`` are the shapes of the ranks of the other side: one that is whole, or several whose sum is wanted.
    """
    if not others or len(shapes) < 2 or any(len(shape) != len(others[0]) for shape in (*shapes, *others)):
        return None
    for axis in range(len(others[0])):
        rest = _without(others[0], axis)
        if any(_without(shape, axis) != rest for shape in (*shapes, *others)):
            continue
        total = sum(shape[axis] for shape in shapes)
        if total in (others[0][axis], sum(shape[axis] for shape in others)) and total != shapes[0][axis]:
            return axis
    return None


def _without(shape: _Shape, axis: int) -> list[int]:
    return [size for at, size in enumerate(shape) if at != axis]
