"""Every dtype through a small network, forward and backward, with tensors kept. Usage: every_dtype.py DUMP_PATH"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from msprobe.mindspore import PrecisionDebugger


class Mine:
    """A function of the user's own, so that any value may go through it."""

    @staticmethod
    def echo(*values: Any) -> Any:
        return values[0]


debugger = PrecisionDebugger({"task": "tensor", "level": "mix", "dump_path": sys.argv[1], "tensor": {}})

import mindspore  # noqa: E402  (as a user does it: msprobe first, then the operators)
from mindspore import Tensor, mint, nn, ops  # noqa: E402

ROWS = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
OTHERS = (mindspore.float16, mindspore.bfloat16, mindspore.float64, mindspore.int64, mindspore.uint8, mindspore.bool_)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 4, weight_init=Tensor(np.eye(4, dtype=np.float32) * 0.5), bias_init=Tensor(ROWS[0]))

    def construct(self, x: Tensor) -> Tensor:
        return (ops.sigmoid(self.first(x)) * 2.0 + x).sum()


debugger.register_custom_api(Mine, "echo", "Mine")
net = Net()
debugger.start(net)
print("scalar", mint.mul(Tensor(ROWS), 2.0).asnumpy().sum())
for dtype in OTHERS:
    Mine.echo(Tensor(ROWS, dtype), Tensor(ROWS, dtype).T, [Tensor(2, dtype)], dtype)
Mine.echo(np.float32(2.5), np.bool_(True), np.arange(3), ROWS, 1.5, slice(0, 2))
loss, _ = mindspore.value_and_grad(net, 0, net.trainable_params())(Tensor(ROWS))
debugger.stop()
debugger.step()
print("loss", loss.asnumpy())
