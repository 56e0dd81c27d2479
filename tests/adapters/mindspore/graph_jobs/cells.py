"""Level L0 of one network in compiled graphs: cells.py FOLDER MODE LEVEL, MODE is graph or jit. Says results as JSON.

Runs the same steps without the tool, with it in several configurations, and without it again.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, _c_expression, nn, ops

from msprobe.core.dump.session import process_debugger
from msprobe.mindspore import PrecisionDebugger

folder, mode, level = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
GRAPH = mode == "graph"
ms.set_context(mode=ms.GRAPH_MODE if GRAPH else ms.PYNATIVE_MODE)
if GRAPH:
    ms.set_context(jit_level=level)
CLASSES = [name for name in ("GraphExecutor_", "JitExecutor_") if hasattr(_c_expression, name)]
CODE = {
    (name, method): getattr(_c_expression, name).__dict__.get(method)
    for name in CLASSES
    for method in ("compile", "generate_arguments_key")
}
# Few binary digits: sums are exact in any order. MindSpore's own order depends on where memory happens to lie.
WEIGHT = (np.arange(12, dtype=np.float32).reshape(3, 4) - 5) / 4


class Split(nn.Cell):
    """A tuple of tensors, one of them nobody uses; an input that has no gradient."""

    def construct(self, x, rows):
        return ops.square(x), ops.cast(rows, ms.float32).sum(), ops.neg(x)


class Join(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scale = ms.Parameter(Tensor(2.0, ms.float32), name="scale")

    def construct(self, pair, factor=1.0):
        return (pair[0] * self.scale + pair[1]) * factor


class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.split, self.join = Split(), Join()

    def construct(self, x, rows):
        once = self.act(x)
        parts = self.split(once, rows)
        return self.act(self.join((parts[0], parts[1]), factor=0.5))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 3, weight_init=Tensor(WEIGHT), bias_init=Tensor(np.ones(3, np.float32)))
        self.inner = Inner()

    def construct(self, x, rows):
        return self.inner(self.fc(x), rows).sum()


net = Net()
X = Tensor((np.arange(8, dtype=np.float32).reshape(2, 4) - 3) / 2)
ROWS = Tensor(np.arange(4, dtype=np.int32))
if not GRAPH:
    call = ms.jit(net, jit_level=level)
    forward = lambda x, rows: call(x, rows)  # noqa: E731
else:
    forward = net
train = ms.value_and_grad(forward, 0, net.trainable_params())


def step():
    loss, (gradient, others) = train(X, ROWS)
    return [part.asnumpy().tobytes().hex() for part in (loss, gradient, *others)]


def recorded(name, steps=2, model=net, **config):
    PrecisionDebugger._instance = None
    debugger = PrecisionDebugger({"level": "L0", "dump_path": str(folder / name), **config})
    seen = []
    for _ in range(steps):
        debugger.start(model)
        seen.append(step())
        debugger.stop()
        debugger.step()
    session = process_debugger.peek()
    process_debugger.put(None)
    session.close()
    return seen


def left():
    cells = [cell for _, cell in net.cells_and_names()]
    kinds = ("_forward_hook", "_forward_pre_hook", "_backward_hook")
    hooks = [kind for kind in kinds for cell in cells if getattr(cell, kind, None)]
    changed = [name for name, code in CODE.items() if getattr(_c_expression, name[0]).__dict__.get(name[1]) is not code]
    return ["construct" for cell in cells if "construct" in vars(cell)] + hooks + changed


seen = {"before": [step()]}
seen["statistics"] = recorded("statistics", steps=1 if GRAPH else 2)
if GRAPH:
    section = {"summary_mode": ["max", "mean"], "data_mode": ["forward"]}
    seen["chosen"] = recorded("chosen", steps=1, statistics=section) if level == "O0" else []
else:
    seen["async"] = recorded("async", steps=1, task="tensor", async_dump=True, tensor={"data_mode": ["backward"]})
    seen["filtered"] = recorded("filtered", step=[1], statistics={"list": ["split"], "data_mode": ["backward"]})
    scope = ["Cell.inner.split.Split.forward.0", "Cell.inner.join.Join.forward.0"]
    section = {"scope": scope, "summary_mode": "md5", "tensor_list": ["split"]}
    seen["scope"] = recorded("scope", steps=1, statistics=section)
    seen["rank"] = recorded("rank", steps=1, rank=[3])
    seen["inner"] = recorded("inner", steps=1, model=net.inner, task="tensor")
seen["after"] = [step()]
print("SEEN", json.dumps({"results": seen, "left": left()}))
