"""Gradients of parameters that a compiled graph sums in several steps: conditions.py FOLDER.

Says as JSON, for each network and parameter, whether the recorded gradient has the bits of the program's.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

folder = Path(sys.argv[1])
ms.set_context(mode=ms.GRAPH_MODE, jit_level="O0")
numbers = np.random.default_rng(0)
X = Tensor(np.ones((2, 4), np.float32))


class Layers(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc, self.a, self.b = (self.dense() for _ in range(3))

    def dense(self):
        weight = numbers.standard_normal((4, 4)).astype(np.float32)
        return nn.Dense(4, 4, weight_init=Tensor(weight), bias_init=Tensor(np.full(4, 3, np.float32)))


class Either(Layers):
    def construct(self, x):
        h = self.a(self.fc(x))
        if h.sum() > -1e9:
            h = ops.tanh(self.a(h))
        else:
            h = self.b(h)
        return self.a(h).sum()


class Two(Layers):
    def construct(self, x):
        h = self.fc(x)
        if h.sum() > -1e9:
            h = ops.tanh(self.a(h))
        if h.sum() > -1e9:
            h = ops.sin(self.a(h))
        return h.sum()


class Nested(Layers):
    def construct(self, x):
        h = self.fc(x)
        if h.sum() > -1e9:
            h = ops.tanh(self.a(h))
            if h.sum() < 1e9:
                h = ops.tanh(self.a(h))
            else:
                h = self.b(h)
        return h.sum()


class While(Layers):
    def construct(self, x):
        h, i = self.fc(x), Tensor(0)
        while i < 3:
            h = ops.tanh(self.a(h))
            i = i + 1
            if i > 1:
                h = ops.sin(self.b(h))
        return h.sum()


class Rows(Layers):
    def construct(self, x):
        h = self.fc(x)
        for row in x:
            h = ops.tanh(self.a(h)) + row
        return h.sum()


class NotTaken(Layers):
    def construct(self, x):
        h = self.fc(x)
        if h.sum() > 1e9:
            h = ops.tanh(self.a(h))
        return h.sum()


class Early(Layers):
    def construct(self, x):
        h = self.fc(x)
        if h.sum() > -1e9:
            return ops.tanh(self.a(h)).sum()
        return ops.tanh(self.a(self.b(h))).sum()


class Recomputed(Layers):
    def __init__(self):
        super().__init__()
        self.a.recompute()

    def construct(self, x):
        return ops.tanh(self.a(ops.tanh(self.a(self.fc(x))))).sum()


class RecomputedUnderIf(Recomputed):
    def construct(self, x):
        h = self.fc(x)
        if h.sum() > -1e9:
            h = ops.tanh(self.a(h))
        return ops.tanh(self.a(h)).sum()


equal = {}
debugger = PrecisionDebugger({"level": "L0", "task": "tensor", "dump_path": str(folder)})
for step, kind in enumerate((Either, Two, Nested, While, Rows, NotTaken, Early, Recomputed, RecomputedUnderIf)):
    net = kind()
    train = ms.value_and_grad(net, None, net.trainable_params())
    debugger.start(net)
    _, gradients = train(X)
    debugger.stop()
    debugger.step()
    equal[kind.__name__] = found = {}
    for parameter, gradient in zip(net.trainable_params(), gradients, strict=True):
        cell, key = parameter.name.split(".")
        for path in (folder / f"step{step}").rglob(f"Cell.{cell}.Dense.parameters_grad.0.{key}*.npy"):
            found[parameter.name] = np.load(path).tobytes() == gradient.asnumpy().tobytes()
print("EQUAL", json.dumps(equal))
