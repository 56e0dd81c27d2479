"""Task exception_dump where the network is a static graph: static_exception.py FOLDER. Says JSON."""

import json
import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

from msprobe.mindspore import PrecisionDebugger

ms.set_context(mode=ms.GRAPH_MODE, jit_level="O0")


class Net(nn.Cell):
    def construct(self, x):
        return ops.log(mint.exp(ops.relu(x)) - 1).sum()


net, x = Net(), Tensor(np.array([0.5, -1.0], np.float32))
debugger = PrecisionDebugger({"task": "exception_dump", "level": "L2", "dump_path": sys.argv[1]})
losses = []
for each in (abs(x), x, x):  # only the second and the third step fail
    debugger.start(net)
    losses.append(float(net(each).asnumpy()))
    debugger.stop()
    debugger.step()
debugger.close()
print(
    "SEEN",
    json.dumps({
        "infinite": [bool(np.isinf(loss)) for loss in losses],
        "variable": os.environ.get("MINDSPORE_DUMP_CONFIG"),
    }),
)
