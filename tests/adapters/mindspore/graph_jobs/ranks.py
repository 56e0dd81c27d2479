"""Two steps in each of two processes, of which the configuration asks for one: ranks.py FOLDER, under msrun."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

ms.set_device("CPU")
ms.set_context(mode=ms.GRAPH_MODE, jit_level="O0")
ms.communication.init("mccl")
debugger = PrecisionDebugger({"task": "tensor", "level": "L2", "dump_path": sys.argv[1], "rank": [1]})


class Net(nn.Cell):
    def construct(self, x):
        return ops.tanh(x) + 1


net = Net()
for _ in range(2):
    debugger.start(net)
    net(Tensor(np.ones(3, np.float32)))
    debugger.stop()
    debugger.step()
