"""Ways to put a fault into a healthy training: each returns what plants it."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor

from tests.zoo.model import Decoder, Training, sgd


def attribute(path: str, name: str, value: Any) -> Callable[[Training], None]:
    """Another value of an attribute of one module."""

    def apply(training: Training) -> None:
        module = training.model.get_submodule(path)
        assert getattr(module, name) != value
        setattr(module, name, value)

    return apply


def method(path: str, name: str, function: Callable[..., Any]) -> Callable[[Training], None]:
    """Another code of a method of one module."""

    def apply(training: Training) -> None:
        module = training.model.get_submodule(path)
        assert callable(getattr(module, name))
        setattr(module, name, MethodType(function, module))

    return apply


def weight(path: str, change: Callable[[Tensor], None], name: str = "weight") -> Callable[[Training], None]:
    """Another value of a parameter from the start."""

    def apply(training: Training) -> None:
        with torch.no_grad():
            change(training.model.get_submodule(path).get_parameter(name))

    return apply


def training(**changes: Any) -> Callable[[Training], None]:
    def apply(training: Training) -> None:
        for name, value in changes.items():
            setattr(training, name, value)

    return apply


def settings(**changes: Any) -> Callable[[Training], None]:
    return lambda training: training.settings.update(changes)


def freeze(path: str) -> Callable[[Training], None]:
    return lambda training: training.model.get_submodule(path).weight.requires_grad_(False)


def hook_parameter(path: str) -> Callable[[Training], None]:
    def drop_first_row(gradient: torch.Tensor) -> torch.Tensor:  # a scale alone would vanish in AdamW's first update
        kept = gradient.clone()
        kept[0] = 0
        return kept

    return lambda training: training.model.get_submodule(path).weight.register_hook(drop_first_row)


def rotary_base(training: Training) -> None:
    training.model.blocks[1].attention.rotary.fill(1_000.0)


def corrupt_later(model: Decoder, step: int) -> None:
    if step == 1:
        with torch.no_grad():
            model.blocks[1].mlp.down.weight[0] *= 1.5


def swap_blocks(training: Training) -> None:
    blocks = training.model.blocks
    blocks[0], blocks[1] = blocks[1], blocks[0]


def with_sgd(training: Training) -> None:
    training.optimizer = sgd


def momentum(training: Training) -> None:
    with_sgd(training)
    training.settings["momentum"] = 0.8
