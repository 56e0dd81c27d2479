"""Level L2 in a dynamic graph, with one function under jit and a bfloat16 result."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from msprobe.mindspore import PrecisionDebugger

ms.set_context(mode=ms.PYNATIVE_MODE)


@ms.jit(jit_level="O0")
def double(x):
    return ops.tanh(x + x), x.astype(ms.bfloat16)


x = Tensor(np.ones(2, np.float32))
debugger = PrecisionDebugger({"task": "tensor", "level": "L2", "dump_path": sys.argv[1]})
for _ in range(2):
    debugger.start()
    double(ops.exp(x))
    debugger.stop()
    debugger.step()
debugger.start()
debugger.step()
