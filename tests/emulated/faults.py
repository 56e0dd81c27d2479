"""Small faults that a comparison across devices must still see: each takes a model and changes one module of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _norms(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if "Norm" in type(module).__name__ and not list(module.children())]


def _products(model: nn.Module) -> list[Any]:
    kinds = ("Linear", "Conv2d", "Conv1D")
    return [module for module in model.modules() if type(module).__name__ in kinds]


def wrong_eps(model: nn.Module) -> None:
    """The first norm divides by a little more: 1e-4 in place of 1e-5."""
    norm = _norms(model)[0]
    name = "eps" if hasattr(norm, "eps") else "variance_epsilon"
    setattr(norm, name, getattr(norm, name) * 10)


def per_mille(model: nn.Module) -> None:
    """The result of the second product is 0.1 % too large."""
    _replace(_products(model)[1], lambda forward, x: forward(x) * 1.001)


def three_per_cent(model: nn.Module) -> None:
    """The result of the second product is 3 % too large; statistics of bfloat16 are rounded to 0.4 %."""
    _replace(_products(model)[1], lambda forward, x: forward(x) * 1.03)


def wrong_weight(model: nn.Module) -> None:
    """One weight of the second product has another sign."""
    with torch.no_grad():
        weight = _products(model)[1].weight
        weight.view(-1)[weight.abs().argmax()] *= -1.0


def half_sums(model: nn.Module) -> None:
    """The second product is computed in float16."""
    module = _products(model)[1]

    def forward(x: Tensor) -> Tensor:
        weight, bias = module.weight.half(), None if module.bias is None else module.bias.half()
        if isinstance(module, nn.Conv2d):
            return F.conv2d(x.half(), weight, bias, module.stride, module.padding).to(x.dtype)
        return F.linear(x.half(), weight if isinstance(module, nn.Linear) else weight.t(), bias).to(x.dtype)

    module.forward = forward


def _replace(module: Any, change: Callable[..., Tensor]) -> None:
    forward = module.forward
    module.forward = lambda x: change(forward, x)


SMALL_FAULTS: dict[str, Callable[[nn.Module], None]] = {
    fault.__name__: fault for fault in (wrong_eps, per_mille, three_per_cent, wrong_weight, half_sums)
}


class PlacedFault(NamedTuple):
    """A fault of one module, made by one line of this file.

    Attributes:
        module: the path of the module that must be named, of each family that has it.
        change: what runs in place of the forward of that module; its line is the one that must be named.
    """

    module: dict[str, str]
    change: Callable[..., Any]

    def plant(self, model: nn.Module) -> None:
        """Replace the forward of the module, in whatever family the model is of."""
        modules = dict(model.named_modules())
        module: Any = next(modules[path] for path in self.module.values() if path in modules)
        forward = module.forward
        module.forward = functools.partial(self.change, forward)

    @property
    def place(self) -> str:
        """Return file and line of the change."""
        return f"{Path(__file__).name}:{self.change.__code__.co_firstlineno + 1}"


def _louder(forward: Any, x: Any) -> Any:
    return forward(x) * 1.001


def _late(forward: Any, positions: Any) -> Any:
    return forward(positions + (positions.shape[-1] == 1))


def _late_angles(forward: Any, x: Any, position_ids: Any) -> Any:
    return forward(x, position_ids + (position_ids.shape[-1] == 1))


_MIDDLE = {
    "gpt2": "transformer.h.1.mlp.c_fc",
    "llama": "model.layers.1.mlp.up_proj",
    "mixtral": "model.layers.1.self_attn.o_proj",
    "resnet": "blocks.1.3",
    "unet": "out.0",
}
PLACED_FAULTS = {
    "louder": PlacedFault(_MIDDLE, _louder),
    "late-position": PlacedFault({"gpt2": "transformer.wpe"}, _late),
    "late-angle": PlacedFault({"llama": "model.rotary_emb", "mixtral": "model.rotary_emb"}, _late_angles),
}
"""Faults of which module and line must be named."""
