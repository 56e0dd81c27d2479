"""Cells of compiled graphs with control flow, a bprop of their own, and unused results: unmeasured.py FOLDER MODE.

MODE is dynamic, graph or jit. Says as JSON which networks have the same results while collecting.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from msprobe.core.dump.session import process_debugger
from msprobe.mindspore import PrecisionDebugger

folder, mode = Path(sys.argv[1]), sys.argv[2]
ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
if mode == "graph":
    ms.set_context(jit_level="O0")
WEIGHT = Tensor((np.arange(16, dtype=np.float32).reshape(4, 4) - 5) / 8)


def dense():
    return nn.Dense(4, 4, weight_init=WEIGHT, bias_init="ones")


class Branch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.taken, self.other, self.act = dense(), dense(), nn.ReLU()

    def construct(self, x):
        y = self.taken(x) if x.sum() < 0 else self.other(x)
        return self.act(y).sum()


class Loop(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer, self.act = dense(), nn.ReLU()

    def construct(self, x):
        count = Tensor(0, ms.int32)
        while count < Tensor(3, ms.int32):
            x = self.layer(x)
            count = count + 1
        return self.act(x).sum()


class Doubled(nn.Cell):
    def construct(self, x):
        return x * 2

    def bprop(self, x, out, dout):
        return (dout * 2,)


class OwnGradient(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.doubled = dense(), Doubled()

    def construct(self, x):
        return self.doubled(self.first(x)).sum()


class Unused(nn.Cell):
    def __init__(self):
        super().__init__()
        self.used, self.unused = dense(), dense()

    def construct(self, x):
        self.unused(x)
        return self.used(x).sum()


def arrays(value):
    return [part for one in value for part in arrays(one)] if isinstance(value, tuple) else [value.asnumpy().tobytes()]


X = Tensor((np.arange(8, dtype=np.float32).reshape(2, 4) - 3) / 2 - 1)
same = {}
for kind in (Branch, Loop, OwnGradient, Unused):
    net = kind()
    call = net
    if mode == "jit":
        compiled = ms.jit(net)
        call = lambda x: compiled(x)  # noqa: E731, B023
    train = ms.value_and_grad(call, 0, net.trainable_params())
    before = arrays(train(X))
    PrecisionDebugger._instance = None
    debugger = PrecisionDebugger({"level": "L0", "dump_path": str(folder / kind.__name__)})
    debugger.start(net)
    same[kind.__name__] = arrays(train(X)) == before
    debugger.stop()
    debugger.step()
    session = process_debugger.peek()
    process_debugger.put(None)
    session.close()
print("SAME", json.dumps(same))
