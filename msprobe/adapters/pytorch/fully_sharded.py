"""Modules given to ``fully_shard``: their parameters are shards at rest and whole while the module is at work.

A gradient ends up at the shard, so it is the shard that has to be watched, in whatever state the module is found. torch
has no public way from one to the other; where its inner names have changed, nothing is found and parameters are
watched as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn


def shards(modules: Iterable[nn.Module]) -> dict[int, Any]:
    """The shards of ``modules`` by the ``id`` of the whole parameter that stands in for each at the moment."""
    return {
        id(parameter._unsharded_param): parameter.sharded_param
        for module in modules
        for group in _groups(module)
        for parameter in getattr(group, "fsdp_params", ())
        if hasattr(parameter, "_unsharded_param") and hasattr(parameter, "sharded_param")
    }


def _groups(module: nn.Module) -> Iterator[Any]:
    find = getattr(module, "_get_fsdp_state", None)
    if find is None:
        return
    state = find()
    found = getattr(state, "_fsdp_param_groups", None)
    yield from [getattr(state, "_fsdp_param_group", None)] if found is None else found
