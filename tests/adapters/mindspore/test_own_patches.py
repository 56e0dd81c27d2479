"""Functions that the program replaces while they are recorded stay, and what its signal handlers raise passes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import mindspore
import pytest
from mindspore import Tensor, mint, nn

from tests.adapters.bench import Bench

ORIGINAL, ORIGINAL_CALL = mint.square, nn.Cell.__call__
X = Tensor([1.0, 2.0], mindspore.float32)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    mint.square, nn.Cell.__call__ = ORIGINAL, ORIGINAL_CALL
    signal.signal(signal.SIGUSR1, before)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def construct(self, x: Any) -> Any:
        return self.relu(x)


def test_a_kept_wrapper_is_called_by_a_patch(bench: Bench) -> None:
    debugger, net = bench.open("mix"), Net()
    debugger.start(model=net)
    kept, kept_call = mint.square, nn.Cell.__call__

    def mine(x: Any) -> Any:
        return kept(x) * 2

    def my_call(cell: nn.Cell, *args: Any) -> Any:
        return kept_call(cell, *args)

    mint.square, nn.Cell.__call__ = mine, my_call
    for step in range(2):
        assert mint.square(X).tolist() == [2.0, 8.0]
        net(X)
        debugger.stop()
        assert mint.square is mine
        assert nn.Cell.__call__ is my_call
        mint.square(X)
        net(X)
        debugger.step()
        names = bench.read(step).names()
        assert [name for name in names if "square" in name] == ["Mint.square.0.forward"]
        assert [name for name in names if name.startswith("Cell.relu")] == ["Cell.relu.ReLU.forward.0"]
        debugger.start(model=net)


class Late(Exception):
    pass


class Key:
    """A key whose text is asked for while it is described, which sends a signal."""

    def __str__(self) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return "key"


def test_what_a_signal_handler_raises_reaches_the_program(bench: Bench) -> None:
    class Space:
        @staticmethod
        def take(value: Any) -> None:
            """Accepts anything."""

    def handler(number: int, frame: Any) -> None:
        raise Late

    debugger, net = bench.open("L1"), Net()
    debugger.register_custom_api(Space, "take")
    signal.signal(signal.SIGUSR1, handler)
    debugger.start(model=net)
    with pytest.raises(Late):
        Space.take({Key(): 1})
    mint.square(X)
    debugger.stop()
    debugger.step()
    assert mint.square is ORIGINAL
    assert bench.read().names("square") == ["Mint.square.0.forward"]
