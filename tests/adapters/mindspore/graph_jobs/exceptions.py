"""Task exception_dump in a dynamic graph: exceptions.py FOLDER. Tries one failure after the other, says JSON."""

import json
import os
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

from msprobe.core.dump.session import process_debugger
from msprobe.mindspore import PrecisionDebugger

folder = Path(sys.argv[1])
ms.runtime.launch_blocking()  # also where the tool is not there yet: errors are compared
X = Tensor(np.array([[0.5, 0.0], [2.0, 1.0]], np.float32))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2, weight_init="ones", bias_init="zeros")
        self.matmul = ops.MatMul()

    def construct(self, x):
        return ops.relu(self.matmul(self.fc(x), x)).sum()


net = Net()


def healthy():
    return ms.value_and_grad(net, 0, net.trainable_params())(X)


def logarithm():
    bad = ops.log(ops.exp(X) * 0)  # -inf out of zeros
    return (ops.sqrt(bad + bad), mint.exp(X * 1000))


def backward():
    return ms.value_and_grad(lambda x: ops.sqrt(ops.relu(x)).sum())(X)


def wrong_shape():
    return (ops.matmul(ops.exp(X), Tensor(np.ones((3, 2), np.float32))),)


def missing_kernel():
    return (mint.nn.functional.gelu(ops.exp(X)),)


def primitive():
    return (net.matmul(X, Tensor(np.ones((3, 2), np.float32))),)


def outcome(function):
    try:
        return [part.asnumpy().tobytes().hex() for part in _flat(function())]
    except (RuntimeError, ValueError, TypeError) as error:
        return [type(error).__name__, str(error).splitlines()[0], error.__cause__ is None]


def _flat(value):
    return [part for one in value for part in _flat(one)] if isinstance(value, (tuple, list)) else [value]


def recorded(function, **config):
    PrecisionDebugger._instance = None
    name = config.pop("name", function.__name__)
    config = {"task": "exception_dump", "level": "L2", "dump_path": str(folder / name), **config}
    debugger = PrecisionDebugger(config)
    debugger.start(net)
    seen = outcome(function)
    debugger.stop()
    debugger.step()
    debugger.start(net)
    outcome(logarithm)
    debugger.stop()
    debugger.step()
    session = process_debugger.peek()
    process_debugger.put(None)
    asked.append(os.environ.get("MINDSPORE_DUMP_CONFIG"))
    session.close()
    return seen


asked = []
FUNCTIONS = (healthy, logarithm, backward, wrong_shape, missing_kernel, primitive)
said = {function.__name__: [outcome(function), recorded(function)] for function in FUNCTIONS}
overflow = {"task": "overflow_check", "level": "mix", "name": "overflow"}
said["overflow"] = [outcome(logarithm), recorded(logarithm, **overflow)]
print("SEEN", json.dumps({"said": said, "asked": asked, "left": os.environ.get("MINDSPORE_DUMP_CONFIG")}))
