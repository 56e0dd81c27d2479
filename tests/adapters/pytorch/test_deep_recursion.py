"""A program calls as deep as it does without the tool."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def limit_of_python() -> Iterator[None]:
    """Run a test under the limit that Python has by itself: MindSpore sets another one, as deep as the stack of C."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


class Recursive(nn.Module):
    """Calls itself ``depth`` times; without a tensor that grows the graph, so that a call costs little."""

    def forward(self, x: torch.Tensor, depth: int) -> torch.Tensor:
        return self(x, depth - 1) if depth else torch.relu(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Recursive()


def ends(part: nn.Module, depth: int) -> bool:
    try:
        part(torch.ones(1), depth)
    except RecursionError:
        return False
    return True


def deepest(part: nn.Module) -> int:
    """Return how deep ``part`` can call itself."""
    lower, upper = 1, 400
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (middle, upper) if ends(part, middle) else (lower, middle)
    return lower


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_recursive_module(bench: Any, level: str) -> None:
    model, limit = Model(), sys.getrecursionlimit()
    depth = deepest(model.part)
    debugger = bench.open(level, extra_info=False)
    debugger.start(model=model)
    assert ends(model.part, depth)
    in_thread: list[bool] = []
    thread = threading.Thread(target=lambda: in_thread.append(ends(model.part, depth)))
    thread.start()
    thread.join()
    debugger.stop()
    assert in_thread == [True]
    assert sys.getrecursionlimit() == limit
    assert not ends(model.part, 10 * depth)


def test_a_deep_model_is_copied(bench: Any) -> None:
    model: nn.Module = nn.Identity()
    while True:
        deeper = nn.Sequential(model)
        try:
            copy.deepcopy(deeper)
        except RecursionError:
            break
        model = deeper
    debugger = bench.open("mix")
    debugger.start(model=nn.Sequential(nn.Identity()))
    copy.deepcopy(model)
    debugger.stop()


def test_a_limit_that_the_program_sets_stays(bench: Any) -> None:
    before = sys.getrecursionlimit()
    debugger = bench.open("L1")
    debugger.start()
    try:
        sys.setrecursionlimit(4321)
        debugger.stop()
        assert sys.getrecursionlimit() == 4321
        debugger.start()
        debugger.stop()
        assert sys.getrecursionlimit() == 4321
    finally:
        sys.setrecursionlimit(before)


def test_a_stop_in_the_depth_leaves_room_and_the_next_one_takes_it(bench: Any) -> None:
    limit = sys.getrecursionlimit()
    debugger = bench.open("L1")
    debugger.start()

    def stop_at(depth: int) -> None:
        debugger.stop() if depth == 0 else stop_at(depth - 1)

    stop_at(limit + 50)
    debugger.start()
    debugger.stop()
    assert sys.getrecursionlimit() == limit
