"""The groups of ranks that this process belongs to, and which part of a batch it has."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

AXES = ("tp", "cp", "ep", "edp", "pp")
"""How ranks are counted, the fastest axis first; the ranks of ``dp`` are those of ``ep`` and ``edp``."""
KINDS = {
    "tp": ("tp",),
    "cp": ("cp",),
    "ep": ("ep",),
    "pp": ("pp",),
    "dp": ("ep", "edp"),
    "dp_cp": ("cp", "ep", "edp"),
    "expert_dp_cp": ("cp", "edp"),
    "model": ("tp", "pp"),
    "amax": ("tp", "cp", "ep", "edp"),
}
"""Name of a group -> the axes in which its ranks differ."""


@dataclass
class Group:
    """Some ranks, and which of them this one is."""

    ranks: list[int]
    handle: Any
    rank: int

    @property
    def size(self) -> int:
        return len(self.ranks)


LAYOUT: Any = None
GROUPS: dict[str, Group] = {}


def initialize(layout: Any, rank: int) -> None:
    """Make the groups of a layout."""
    global LAYOUT
    LAYOUT = layout
    sizes = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep, "edp": layout.dp // layout.ep, "pp": layout.pp}
    for kind, axes in KINDS.items():
        _add(kind, _groups(sizes, axes), rank)
    ends = [sorted({ranks[0], ranks[-1]}) for ranks in _groups(sizes, ("pp",))]
    _add("embedding", ends, rank)


def _groups(sizes: dict[str, int], axes: tuple[str, ...]) -> list[list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(dist.get_world_size()):
        rest, key = rank, []
        for axis in AXES:
            rest, coordinate = divmod(rest, sizes[axis])
            if axis not in axes:
                key.append(coordinate)
        found.setdefault(tuple(key), []).append(rank)
    return list(found.values())


def _add(kind: str, groups: list[list[int]], rank: int) -> None:
    for ranks in groups:
        handle = dist.new_group(ranks)
        if rank in ranks:
            GROUPS[kind] = Group(ranks, handle, ranks.index(rank))


def group(kind: str) -> Group:
    return GROUPS.get(kind) or Group([], None, -1)


def positions(length: int) -> torch.Tensor:
    """Return the places in the sequence that this rank of context parallelism has."""
    cp = group("cp")
    if LAYOUT.zigzag:
        parts = torch.arange(length).chunk(2 * cp.size)
        return torch.cat([parts[cp.rank], parts[2 * cp.size - 1 - cp.rank]])
    return torch.arange(length).chunk(cp.size)[cp.rank]


def norm_positions(length: int) -> torch.Tensor:
    """Return the places in the sequence that norms and dropout of this rank work on."""
    own = positions(length)
    return own.chunk(group("tp").size)[group("tp").rank] if LAYOUT.sequence else own
