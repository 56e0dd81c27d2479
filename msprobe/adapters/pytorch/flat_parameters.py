"""Modules in ``FullyShardedDataParallel(use_orig_params=True)``: their parameters are parts of one flat parameter.

Autograd computes the gradient of the flat parameter only, so that parameter is watched. Its gradient, as this process
has it before it is reduced, is split into those of the parameters. torch has no public way from the flat parameter to
the others; where its private names have changed, no flat parameter is found.
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
