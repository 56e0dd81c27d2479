"""The mode is chosen after PrecisionDebugger, and step() is never called: unended.py FOLDER."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

ms.set_context(mode=ms.PYNATIVE_MODE)
debugger = PrecisionDebugger({"task": "tensor", "level": "L2", "dump_path": sys.argv[1], "step": [1, 2]})
ms.set_context(mode=ms.GRAPH_MODE, jit_level="O2")


class Net(nn.Cell):
    def construct(self, x):
        return ops.tanh(x) + 1


net = Net()
debugger.start(net)
for _ in range(4):
    net(Tensor(np.ones(3, np.float32)))
