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
        return mint.exp(ops.relu(x)).sum()


net, x = Net(), Tensor(np.array([0.0, 0.0], np.float32))
debugger = PrecisionDebugger({"task": "exception_dump", "level": "L2", "dump_path": sys.argv[1]})
debugger.start(net)
loss = float(net(x).asnumpy())
ops.log(x)  # outside of the graph: seen
debugger.stop()
debugger.step()
print("SEEN", json.dumps({"loss": loss, "variable": os.environ.get("MINDSPORE_DUMP_CONFIG")}))
