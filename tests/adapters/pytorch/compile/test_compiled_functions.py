"""Modules that a function given to ``torch.compile`` may call: found by its names, without running anything."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from msprobe.adapters.pytorch.compile.compiled_functions import modules_used  # noqa: E402

pytestmark = pytest.mark.torch
GLOBAL = nn.Linear(2, 2)


def through_a_global(x: Any) -> Any:
    return GLOBAL(x)


def through_another_function(x: Any) -> Any:
    return through_a_global(x) + 1


class Trainer:
    ran = False

    def __init__(self) -> None:
        self.net, self.other = nn.Linear(2, 2), nn.Linear(2, 2)

    @property
    def costly(self) -> Any:
        Trainer.ran = True
        return self.other

    def loss(self, x: Any) -> Any:
        return self.net(x).sum()

    def step(self, x: Any) -> Any:
        return self.loss(x) + (0 if x is not None else self.costly(x))


def test_variables_globals_and_further_functions() -> None:
    local = nn.Linear(2, 2)
    assert list(modules_used(lambda x: local(x), (None,), {})) == [local]
    assert list(modules_used(through_a_global, (None,), {})) == [GLOBAL]
    assert list(modules_used(through_another_function, (None,), {})) == [GLOBAL]


def test_arguments_and_partial_functions() -> None:
    module = nn.Linear(2, 2)
    assert list(modules_used(lambda net, x: net(x), (module, None), {})) == [module]
    assert list(modules_used(functools.partial(lambda net, x: net(x), module), (None,), {})) == [module]


def test_methods_and_attributes_without_running_code() -> None:
    trainer = Trainer()
    assert list(modules_used(trainer.step, (None,), {})) == [trainer.net]
    assert not Trainer.ran
    module = nn.Sequential(nn.ReLU())
    assert list(modules_used(module.forward, (None,), {})) == [module]


def test_functions_without_modules() -> None:
    assert list(modules_used(torch.relu, (None,), {})) == []
    assert list(modules_used(lambda x: x + 1, (torch.ones(1),), {})) == []
