"""Level L0 of several networks: order.py FOLDER MODE, MODE is dynamic, graph or jit.

Says as JSON whether results and gradients were the same bits with taps.
Cells are declared in another order than they are called. ``faulty`` is ``chain`` with a fault in one layer.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.core.dump.session import process_debugger
from msprobe.mindspore import PrecisionDebugger

folder, mode = Path(sys.argv[1]), sys.argv[2]
ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
if mode == "graph":
    ms.set_context(jit_level="O0")
numbers = np.random.default_rng(3)


def dense(scale=0.3):
    weight = (numbers.standard_normal((4, 4)) * scale).astype(np.float32)
    return nn.Dense(4, 4, weight_init=Tensor(weight), bias_init="ones")


class Act(nn.Cell):
    def construct(self, x):
        return ops.tanh(x)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.out, self.act, self.inp = dense(), Act(), dense()

    def construct(self, x):
        return self.out(self.act(self.inp(x))) + x


class Chain(nn.Cell):
    """Layers declared last to first."""

    def __init__(self):
        super().__init__()
        self.head, self.block, self.act, self.emb = dense(), Block(), Act(), dense()

    def construct(self, x):
        return self.head(self.block(self.act(self.emb(x)))).sum()


class Shared(nn.Cell):
    """One block three times, its parts twice more."""

    def __init__(self):
        super().__init__()
        self.head, self.block, self.emb = dense(), Block(), dense()

    def construct(self, x):
        h = self.emb(x)
        for _ in range(3):
            h = self.block(h)
        return self.head(self.emb(h)).sum()


class Branches(nn.Cell):
    """Calls that do not depend on each other, used in another order than they are called."""

    def __init__(self):
        super().__init__()
        self.out, self.value, self.key, self.query = dense(), dense(), dense(), dense()

    def construct(self, x):
        query = self.query(x)
        key = self.key(x)
        value = self.value(x)
        return (self.out(value * key + query) + x).sum()


class Loop(nn.Cell):
    """A loop that the graph decides on."""

    def __init__(self):
        super().__init__()
        self.last, self.step, self.first = dense(), Block(), Act()

    def construct(self, x):
        h = self.first(x)
        count = Tensor(0)
        while count < 3:
            h = self.step(h)
            count = count + 1
        return self.last(h).sum()


class Between(nn.Cell):
    """Compiled cells between cells that run in a dynamic graph; calls of one cell on both sides."""

    def __init__(self):
        super().__init__()
        self.last, self.block, self.act, self.first = dense(), Block(), Act(), dense()

    def construct(self, x):
        h = self.act(self.first(x))
        h = middle(self, h)
        return self.last(self.act(h)).sum()


def middle(net, h):
    return net.act(net.block(h))


NETS = {"chain": Chain, "shared": Shared, "branches": Branches, "loop": Loop}
if mode == "jit":
    NETS.pop("loop")  # MindSpore runs it once more for the gradient
if mode != "graph":
    NETS["between"] = Between
X = Tensor(numbers.standard_normal((2, 4)).astype(np.float32))


def recorded(name, net, forward, **config):
    train = ms.value_and_grad(forward, 0, net.trainable_params())

    def step():
        loss, (gradient, others) = train(X)
        return [part.asnumpy().tobytes() for part in (loss, gradient, *others)]

    plain = step()
    PrecisionDebugger._instance = None
    debugger = PrecisionDebugger({"level": "L0", "dump_path": str(folder / name), **config})
    debugger.start(net)
    tapped = step()
    debugger.stop()
    debugger.step()
    session = process_debugger.peek()
    process_debugger.put(None)
    session.close()
    return plain == tapped == step()


def compiled(name, net):
    if mode != "jit":
        return net
    if name != "between":
        call = ms.jit(net)
        return lambda x: call(x)
    global middle
    bare = middle
    middle = _jitted(bare, net)
    return net


def _jitted(bare, net):
    @ms.jit
    def inner(h):
        return bare(net, h)

    return lambda _, h: inner(h)


same = {}
for name, kind in NETS.items():
    numbers = np.random.default_rng(3)
    net = kind()
    same[name] = recorded(name, net, compiled(name, net))
numbers = np.random.default_rng(3)
net = Chain()
net.block.inp.bias.set_data(Tensor(np.full(4, 1.25, np.float32)))
same["faulty"] = recorded("faulty", net, compiled("faulty", net))
numbers = np.random.default_rng(3)
net = Shared()
scope = {"scope": ["Cell.block.Block.forward.1", "Cell.block.inp.Dense.forward.2"]}
same["scope"] = recorded("scope", net, compiled("scope", net), statistics=scope)
print("SAME", json.dumps(same))
