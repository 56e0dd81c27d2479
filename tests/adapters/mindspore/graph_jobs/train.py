"""Three steps of a small network in a static graph: train.py CONFIG JIT_LEVEL WEIGHT. Says what it saw as JSON."""

import json
import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

config, level, weight = sys.argv[1], sys.argv[2], float(sys.argv[3])
ms.set_context(mode=ms.GRAPH_MODE, jit_level=level)
weights = (np.arange(12, dtype=np.float32).reshape(3, 4) - 6) / 4  # every sum is exact, in whatever order
second = weights[:2, :3].copy()
weights[0, 0] = weight


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Dense(4, 3, weight_init=Tensor(weights), bias_init=Tensor(np.ones(3, np.float32)))
        self.fc2 = nn.Dense(3, 2, weight_init=Tensor(second), bias_init=Tensor(np.zeros(2, np.float32)))

    def construct(self, x):
        return self.fc2(ops.relu(self.fc1(x))).sum()


net = Net()
step = ms.value_and_grad(net, None, net.trainable_params())
x = Tensor((np.arange(8, dtype=np.float32).reshape(2, 4) - 4) / 4)
debugger = PrecisionDebugger(config) if config else None
seen = []
for number in range(3):
    if debugger:
        debugger.start(net)
    loss, grads = step(x)
    if debugger:
        debugger.stop()
    if number == 1:
        net(x)  # a graph of no interest, outside of start and stop
    if debugger:
        debugger.step()
    seen.append([float(loss.asnumpy()), *(grad.asnumpy().tobytes().hex() for grad in grads)])
print("SEEN", json.dumps(seen))
print("LEFT", os.environ.get("MINDSPORE_DUMP_CONFIG"))
