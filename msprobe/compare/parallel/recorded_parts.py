"""How tensors lie on ranks, as their records say: the placements of a DTensor, and what the program said of the parts
that ranks hold (``msprobe.pytorch.parallel.shard``) or Megatron's marks on parameters tell.

Both come before what shapes and values suggest. Pieces are those of one declared tensor where each of them was declared
over the same group, and there are as many pieces as the group has ranks. A mark of Megatron may tell no group: it is
about the ranks of tensor parallelism, however many these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.core.store.record_walk import SHARD


class Part(NamedTuple):
    """A cut along ``dim`` over the ranks of a group; without ``dim`` each of them holds the whole.

    An empty group stands for the ranks of tensor parallelism.
    """

    dim: int | None
    group: tuple[int, ...]


def declared_parts(raw: Any) -> list[Part]:
    """Return what was declared of a recorded tensor; a damaged item says nothing."""
    items = raw.get(SHARD) if isinstance(raw, Mapping) else None
    return [part for item in items if (part := _part(item)) is not None] if isinstance(items, list) else []


def _part(item: Any) -> Part | None:
    dim, group = (item.get("dim"), item.get("group", "")) if isinstance(item, Mapping) else (None, "")
    group = [] if group is None else group
    if not isinstance(group, list) or not all(type(rank) is int for rank in group):
        return None
    return Part(dim, tuple(group)) if dim is None or type(dim) is int else None


def common_part(raws: Sequence[Any], *, tensor_parallel: bool = False) -> Part | None:
    """Return what was declared of the records of all ranks of one group, ``tensor_parallel`` ones or others; None where
    nothing was."""
    shared = set(declared_parts(raws[0])).intersection(*(declared_parts(raw) for raw in raws[1:]))
    sizes = {len(raws), 0} if tensor_parallel and len(raws) > 1 else {len(raws)}
    return max((part for part in shared if len(part.group) in sizes), key=lambda part: len(part.group), default=None)


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

    Ranks count tensor parallelism first (see ``parallel.layout``), so the dimensions before it are data parallelism.
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


def recorded_as(raws: Sequence[Mapping[str, Any]]) -> str | None:
    """Return ``Replicate`` or ``Partial`` where that is what all placements of one mesh of ranks record; else None."""
    meshes, placements = ([raw.get(key) for raw in raws] for key in ("device_mesh", "placements"))
    if not isinstance(meshes[0], list) or any(mesh != meshes[0] for mesh in meshes):
        return None
    kinds = {
        kind
        for each in placements
        for placement in (each if isinstance(each, list) else [None])
        for kind in (placement if isinstance(placement, Mapping) else ["Shard"])
    }
    return kinds.pop() if kinds in ({"Replicate"}, {"Partial"}) else None
