"""Recomputation: the second pass is marked, numbered on, and under the same cells as the first."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn

from tests.adapters.bench import Bench


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4)

    def construct(self, x: Any) -> Any:
        return self.fc(mint.square(x))


class Net(nn.Cell):
    def __init__(self, by_cell: bool) -> None:
        super().__init__()
        self.block = Block()
        self.by_cell = by_cell
        if by_cell:
            self.block.recompute()

    def construct(self, x: Any) -> Any:
        return (self.block(x) if self.by_cell else mindspore.recompute(self.block, x)).sum()


@pytest.mark.parametrize("by_cell", [True, False], ids=["Cell.recompute", "mindspore.recompute"])
def test_the_second_pass_is_marked_and_keeps_its_place(bench: Bench, by_cell: bool) -> None:
    net = Net(by_cell)
    gradient = mindspore.value_and_grad(net, None, net.trainable_params())
    x = Tensor((np.arange(8, dtype=np.float32).reshape(2, 4) - 4) / 4)
    plain = gradient(x)
    debugger = bench.open("mix")
    debugger.start(net)
    recorded = gradient(x)
    debugger.stop()
    debugger.step()
    for ours, theirs in zip(recorded[1], plain[1], strict=True):
        assert ours.asnumpy().tobytes() == theirs.asnumpy().tobytes()
    found = bench.read()
    cells = [name for name in found.names("Cell.") if ".forward." in name]
    assert cells == [
        "Cell.block.fc.Dense.forward.0",
        "Cell.block.Block.forward.0",
        "Cell.block.fc.Dense.forward.1",
        "Cell.block.Block.forward.1",
    ]
    assert [found.data[name].get("is_recompute") for name in cells] == [None, None, True, True]
    assert found.construct is not None
    assert found.construct["Mint.square.1.forward"] == "Cell.block.Block.forward.1"
    assert found.construct["Cell.block.fc.Dense.forward.1"] == "Cell.block.Block.forward.1"
    assert "Cell.block.Block.backward.1" in found.data
    assert "Cell.block.fc.Dense.parameters_grad.0" in found.data
