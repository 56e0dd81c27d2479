"""Functions that the program itself replaces while they are recorded stay as the program wants them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 8).reshape(2, 4)
ORIGINAL, ORIGINAL_CALL = F.gelu, nn.Module.__call__


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    F.gelu, nn.Module.__call__ = ORIGINAL, ORIGINAL_CALL


class Collection:
    """A collection that is switched on and off, each time in a step of its own."""

    def __init__(self, bench: Any, level: str) -> None:
        self.bench = bench
        self.level = level
        self.model = Mlp()
        self.debugger = bench.open(level)
        self.steps = 0

    def on(self) -> None:
        self.debugger.start(model=self.model)

    def off(self) -> list[str]:
        """Return the calls that were recorded, of gelu and of the first layer."""
        self.debugger.stop()
        before = F.gelu(X), self.model(X)
        assert torch.equal(F.gelu(X), before[0])
        self.debugger.step()
        self.steps += 1
        names = self.bench.read(self.steps - 1).names()
        return [name for name in names if "gelu" in name or (".fc1." in name and name.endswith("forward.0"))]


@pytest.fixture(params=["L1", "mix"])
def collection(request: Any, bench: Any) -> Collection:
    return Collection(bench, request.param)


def calls_of(collection: Collection, gelu: int = 1) -> list[str]:
    modules = ["Module.fc1.Linear.forward.0"] if collection.level == "mix" else []
    return [f"Functional.gelu.{number}.forward" for number in range(gelu)] + modules


def work(collection: Collection, factor: float) -> None:
    assert torch.equal(F.gelu(X), ORIGINAL(X) * factor)
    collection.model(X)


def test_a_patch_made_while_collecting_survives(collection: Collection) -> None:
    collection.on()
    F.gelu = mine = lambda x: ORIGINAL(x) * 3
    work(collection, 3)
    collection.off()
    assert F.gelu is mine
    collection.on()
    work(collection, 3)
    assert collection.off() == calls_of(collection)
    assert F.gelu is mine


def test_a_patch_made_before_the_start_is_called(collection: Collection) -> None:
    F.gelu = mine = lambda x: ORIGINAL(x) * 3
    collection.on()
    work(collection, 3)
    assert collection.off() == calls_of(collection)
    assert F.gelu is mine


def test_a_kept_wrapper_is_called_by_a_patch(collection: Collection) -> None:
    collection.on()
    kept, kept_call = F.gelu, nn.Module.__call__

    def mine(x: torch.Tensor) -> torch.Tensor:
        return kept(x) * 2

    def my_call(module: nn.Module, *args: Any) -> Any:
        return kept_call(module, *args)

    F.gelu, nn.Module.__call__ = mine, my_call
    for _ in range(3):
        work(collection, 2)
        assert collection.off() == calls_of(collection)
        assert F.gelu is mine
        assert nn.Module.__call__ is my_call
        collection.on()
    collection.off()


def test_a_kept_wrapper_is_put_back(collection: Collection) -> None:
    collection.on()
    kept, kept_call = F.gelu, nn.Module.__call__
    collection.off()
    F.gelu, nn.Module.__call__ = kept, kept_call
    for _ in range(2):
        collection.on()
        work(collection, 1)
        assert collection.off() == calls_of(collection)
    F.gelu, nn.Module.__call__ = ORIGINAL, ORIGINAL_CALL
    collection.on()
    work(collection, 1)
    assert collection.off() == calls_of(collection)
    assert F.gelu is ORIGINAL
    assert nn.Module.__call__ is ORIGINAL_CALL


def test_the_program_may_restore_what_it_patched(collection: Collection) -> None:
    F.gelu = lambda x: ORIGINAL(x) * 3
    collection.on()
    F.gelu = ORIGINAL
    work(collection, 1)
    collection.off()
    assert F.gelu is ORIGINAL
    collection.on()
    work(collection, 1)
    assert collection.off() == calls_of(collection)
