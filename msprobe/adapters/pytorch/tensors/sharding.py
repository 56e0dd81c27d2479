"""Parameters and tensors that are sharded over ranks: flat parameters, ``fully_shard`` and ``DTensor``.

Modules in ``FullyShardedDataParallel(use_orig_params=True)`` have parameters that are parts of one flat parameter
(``FlatParameter``). Autograd computes the gradient of the flat parameter only, so that parameter is watched. Its
gradient, as this process has it before it is reduced, is split into those of the parameters. torch has no public way
from the flat parameter to the others; where its private names have changed, ``flat_parameters`` returns none.

Modules given to ``fully_shard`` have whole parameters while they run, and shards otherwise (``find_shards``). A
gradient ends up at the shard, so the shard has to be watched, whatever state the module is in. torch has no public way
from a whole parameter to its shard; where its private names have changed, parameters are watched as they are.

``sharding`` returns the layout of a ``DTensor``: the mesh of its ranks, and its placement along each mesh dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

ParameterKey = tuple[Any, str]
"""A module and the name of one of its parameters."""


class FlatParameter:
    """One flat parameter of a model."""

    def __init__(self, handle: Any) -> None:
        self.tensor: torch.Tensor = handle.flat_param
        self.keys: list[ParameterKey] = [(info.module, info.param_name) for info in handle.flat_param._param_infos]
        self.parameters: list[nn.Parameter] = list(handle.flat_param._params)
        self._split: Callable[[torch.Tensor], Iterable[torch.Tensor]] = handle._get_unflat_views

    def split(self, gradient: torch.Tensor) -> Iterator[tuple[ParameterKey, torch.Tensor]]:
        """Return the gradients of the parameters, views of ``gradient``, which has the shape of the flat one."""
        return zip(self.keys, self._split(gradient), strict=True)


def flat_parameters(modules: Iterable[nn.Module]) -> list[FlatParameter]:
    """Return the flat parameters of ``modules`` that have trainable original parameters, each once."""
    handles = {id(handle): handle for handle in (getattr(module, "_handle", None) for module in modules)}
    return [FlatParameter(handle) for handle in handles.values() if _is_watched(handle)]


def _is_watched(handle: Any) -> bool:
    flat = getattr(handle, "flat_param", None)
    if not isinstance(flat, nn.Parameter) or not flat.requires_grad or not getattr(flat, "_params", None):
        return False
    return hasattr(flat, "_param_infos") and hasattr(handle, "_get_unflat_views")


def find_shards(modules: Iterable[nn.Module]) -> dict[int, Any]:
    """Return the shards of ``modules`` by the ``id`` of the whole parameter that takes the place of each now."""
    return {
        id(parameter._unsharded_param): parameter.sharded_param
        for module in modules
        for group in _parameter_groups(module)
        for parameter in getattr(group, "fsdp_params", ())
        if hasattr(parameter, "_unsharded_param") and hasattr(parameter, "sharded_param")
    }


def _parameter_groups(module: nn.Module) -> Iterator[Any]:
    find = getattr(module, "_get_fsdp_state", None)
    if find is None:
        return
    state = find()
    groups = getattr(state, "_fsdp_param_groups", None)
    yield from [getattr(state, "_fsdp_param_group", None)] if groups is None else groups


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
