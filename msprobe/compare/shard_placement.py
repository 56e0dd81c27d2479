"""Finds the axis along which a tensor is cut, from its recorded placement or from shapes that add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_Shape = Sequence[int]


class Placement(NamedTuple):
    """How a tensor lies on the ranks of a group.

    Attributes:
        axis: the cut axis; None for a copy.
        partial: whether the ranks hold summands.
        apart: whether ranks of other replicas hold parts as well.
    """

    axis: int | None = None
    partial: bool = False
    apart: bool = False


def recorded_placement(raws: Sequence[Mapping[str, Any]]) -> Placement | None:
    """Return the placement that all ranks recorded, along the last dimension of their mesh; None where there is none.

    Ranks count tensor parallelism first (see ``parallel_layout``), so the dimensions before it are data parallelism.
    """
    placements = raws[0].get("placements")
    if not isinstance(placements, list) or not placements or any(raw.get("placements") != placements for raw in raws):
        return None
    if not all(isinstance(placement, Mapping) for placement in placements):
        return None
    *others, own = placements
    if any("Replicate" not in placement for placement in others):
        return Placement(apart=True)
    if "Replicate" in own:
        return Placement()
    cut = own.get("Shard")
    axis = cut.get("dim") if isinstance(cut, Mapping) else None
    return Placement(axis) if type(axis) is int else Placement(partial=True)


def local_sizes(shape: _Shape, axis: int, parts: int) -> list[int]:
    """Return the numbers of elements on each rank of a tensor of this whole shape.

    The pieces along ``axis`` have equal lengths; the last ones may be shorter or empty.
    """
    length = shape[axis]
    piece = -(-length // parts)
    rest = 1
    for index, size in enumerate(shape):
        rest *= size if index != axis % len(shape) else 1
    return [max(0, min(piece, length - piece * part)) * rest for part in range(parts)]


def axis_that_adds_up(shapes: Sequence[_Shape], others: Sequence[_Shape]) -> int | None:
    """Return the axis along which the shapes of the ranks add up to that of the other side; None without such an axis.

    ``others`` are the shapes of the ranks of the other side: one that is whole, or several whose sum is wanted.
    """
    if not others or len(shapes) < 2 or any(len(shape) != len(others[0]) for shape in (*shapes, *others)):
        return None
    for axis in range(len(others[0])):
        rest = _without_axis(others[0], axis)
        if any(_without_axis(shape, axis) != rest for shape in (*shapes, *others)):
            continue
        total = sum(shape[axis] for shape in shapes)
        if total in (others[0][axis], sum(shape[axis] for shape in others)) and total != shapes[0][axis]:
            return axis
    return None


def _without_axis(shape: _Shape, axis: int) -> list[int]:
    return [size for index, size in enumerate(shape) if index != axis]
