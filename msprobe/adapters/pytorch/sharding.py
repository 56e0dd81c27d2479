"""The layout of a ``DTensor``: the mesh of ranks it lies on, and its placement along each dimension of the mesh."""

from __future__ import annotations

from typing import Any

import torch


def is_sharded(tensor: torch.Tensor) -> bool:
    """Return whether ``tensor`` is a DTensor, by its attributes, because the class may not be importable."""
    return hasattr(tensor, "device_mesh") and hasattr(tensor, "placements")


def sharding(tensor: Any) -> dict[str, Any]:
    """Return ``device_mesh`` (ranks, a nested list) and ``placements`` (one object per mesh dimension) of a DTensor."""
    return {
        "device_mesh": tensor.device_mesh.mesh.tolist(),
        "placements": [_placement(placement) for placement in tensor.placements],
    }


def _placement(placement: Any) -> dict[str, Any]:
    name = type(placement).__name__.lstrip("_")
    if name == "Partial":
        return {name: {"reduce_op": str(placement.reduce_op)}}
    return {name: {"dim": placement.dim} if hasattr(placement, "dim") else {}}
