"""Modules given to ``fully_shard``: their parameters are whole while the module runs, and shards otherwise.

A gradient ends up at the shard, so the shard has to be watched, whatever state the module is in. torch has no public
way from a whole parameter to its shard; where its private names have changed, parameters are watched as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn


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
