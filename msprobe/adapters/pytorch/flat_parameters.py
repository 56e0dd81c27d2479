"""Modules in ``FullyShardedDataParallel(use_orig_params=True)``: their parameters are parts of one flat parameter.

Autograd brings the gradient to the flat parameter alone, so that is what has to be watched; its gradient, whole and as
this process has it before it is reduced, is cut into those of the parameters. torch has no public way from the one to
the others; where its inner names have changed, nothing is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

Place = tuple[Any, str]
"""A module and the name of one of its parameters."""


class FlatParameter:
    """One flat parameter of a model."""

    def __init__(self, handle: Any) -> None:
        self.tensor: torch.Tensor = handle.flat_param
        self.places: list[Place] = [(info.module, info.param_name) for info in handle.flat_param._param_infos]
        self.parameters: list[nn.Parameter] = list(handle.flat_param._params)
        self._cut: Callable[[torch.Tensor], Iterable[torch.Tensor]] = handle._get_unflat_views

    def cut(self, gradient: torch.Tensor) -> Iterator[tuple[Place, torch.Tensor]]:
        """The gradients of the parameters, views of that of the flat one."""
        return zip(self.places, self._cut(gradient), strict=True)


def flat_parameters(modules: Iterable[nn.Module]) -> list[FlatParameter]:
    """Those with trainable original parameters that ``modules`` hold, each once."""
    handles = {id(handle): handle for handle in (getattr(module, "_handle", None) for module in modules)}
    return [FlatParameter(handle) for handle in handles.values() if _is_watched(handle)]


def _is_watched(handle: Any) -> bool:
    flat = getattr(handle, "flat_param", None)
    if not isinstance(flat, nn.Parameter) or not flat.requires_grad or not getattr(flat, "_params", None):
        return False
    return hasattr(flat, "_param_infos") and hasattr(handle, "_get_unflat_views")
