"""Random programs of MindSpore in a dynamic graph, made of the blocks in ``random_blocks.txt``.

python -m tests.adapters.mindspore.random_programs 17             prints the program of seed 17, and what it makes
python -m tests.adapters.mindspore.random_programs 17 hooks vmap  the same of these blocks only
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore

from tests.adapters.random_programs import Framework, Programs, digest

HEADER = """
import asyncio, collections, copy, dataclasses, pickle, random, tempfile, threading, warnings
import numpy as np
import mindspore as ms
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.common._grad_function import _Function
from mindspore.mint.nn import functional as F

warnings.simplefilter("ignore")
Pair = collections.namedtuple("Pair", "left right")

@dataclasses.dataclass
class Held:
    values: object
    name: str = "held"

class Tagged(Tensor):
    pass

class Scaled(_Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        LOG.append(x.shape)
        return grad * ctx.factor, None

class Bent(nn.Cell):
    def construct(self, x):
        return ops.$unary(x)
    def bprop(self, x, out, dout):
        LOG.append(dout.shape)
        return (dout * $rows,)

class Compiled(nn.Cell):
    @ms.jit
    def construct(self, x):
        return ops.square(x) + ops.sin(x)

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.drop = nn.Dense(4, 4), mint.nn.Linear(4, 3), nn.Dropout(p=0.3)
        self.norm, self.act, self.matmul = nn.BatchNorm1d(4), nn.ReLU(), ops.MatMul()
        self.weight = Parameter(Tensor(np.random.randn(3, 3).astype(np.float32)), name='weight')
    def construct(self, x, scale=1.0):
        hidden = self.second(self.drop(self.act(self.norm(self.first(x)))))
        return self.matmul(hidden, self.weight) * scale

def made(*shape, dtype=ms.float32):
    return Tensor(np.asarray(np.random.randn(*shape) * 3, np.float32)).astype(dtype)

def gradients(cell, *inputs, **keywords):
    return ms.value_and_grad(cell, 0, cell.trainable_params())(*inputs, **keywords)

LOG = []
"""
SEEDED = """
ms.set_seed({seed}); ms.manual_seed({seed}); random.seed({seed}); np.random.seed({seed})
MODEL = Net().set_train()
"""
WORDS: dict[str, tuple[str, ...]] = {
    "binary": ("add", "mul", "sub", "maximum", "atan2", "matmul"),
    "container": (
        "{'a': x, 'b': [x, None]}",
        "Pair(x, 2)",
        "(x, (x * 2, 'text'))",
        "Held(x)",
        "[]",
        "[x, [x + 1]]",
        "{1: x, None: 2}",
        "None",
    ),
    "dim": ("0", "1", "-1", "5"),
    "dtype": (
        "bfloat16",
        "float16",
        "float64",
        "int8",
        "uint8",
        "int64",
        "bool_",
        "uint16",
        "complex64",
        "complex128",
        "float8_e4m3fn",
        "float8_e5m2",
    ),
    "exotic": ("x * 2", "x.sum()", "x[0]", "x.reshape(2, 6)", "ops.stack((x, x))", "x == x", "mint.abs(x)", "x.T"),
    "flag": ("True", "False"),
    "function": ("relu", "softmax", "normalize", "silu", "elu", "tanh", "sigmoid", "softplus", "no_such"),
    "hooked": ("out * 2", "None", "(out,)", "out + 1"),
    "inplace": (
        "add_(1)",
        "mul_(2)",
        "sub_(1.5)",
        "zero_()",
        "__setitem__(0, 5.0)",
        "copy_(mint.ones((4,)))",
        "__iadd__(1)",
    ),
    "odd": ("2", "None", "float('nan')", "'text'", "[1]", "mint.ones(())", "object"),
    "optimizer": ("nn.SGD", "nn.Momentum", "nn.Adam", "nn.AdamWeightDecay", "mint.optim.AdamW"),
    "primitive": ("ReLU()", "Sigmoid()", "Softmax(-1)", "ReduceSum()", "Cast()", "Square()", "Primitive('Tanh')"),
    "reduction": ("sum", "mean", "max", "prod", "argmax", "logsumexp", "std"),
    "rows": ("1", "2", "3"),
    "space": ("ops", "mint", "Tensor"),
    "unary": ("exp", "sin", "tanh", "abs", "sigmoid", "neg", "square", "erf"),
    "view": (
        "T",
        "reshape((2, 6))",
        "view(12)",
        "narrow(0, 1, 2)",
        "unsqueeze(0)",
        "expand_as(mint.ones((2, 4, 3)))",
        "contiguous()",
        "flatten()",
        "broadcast_to((2, 4, 3))",
        "split(2)[0]",
    ),
}
_UNCOMPARED = {mindspore.bfloat16: mindspore.float32}  # numpy has no such type; float32 has all its values


def described(value: Any) -> Any:
    """Return what compares a tensor by all its bits; None for what is no tensor."""
    if isinstance(value, (mindspore.COOTensor, mindspore.CSRTensor)):
        return type(value).__name__, described(value.values), described(value.indices)
    if not isinstance(value, mindspore.Tensor):
        return None
    facts = type(value).__name__, str(value.dtype), value.shape, getattr(value, "name", None)
    try:
        array = value.astype(_UNCOMPARED.get(value.dtype, value.dtype)).asnumpy()
    except (TypeError, ValueError, RuntimeError) as error:  # a type that this machine cannot convert
        return (*facts, type(error).__name__)
    return (*facts, digest(array.tobytes()))


def random_state() -> bytes:
    """Return the state of MindSpore's generator and of its seeds."""
    state: bytes = mindspore.get_rng_state().asnumpy().tobytes()
    return state + repr((mindspore.get_seed(), mindspore.initial_seed())).encode()


NOISE = r"0x[0-9a-f]+|kernel_graph\d+|(CNode|Parameter)_\d+|(?s:\n(# |-{20,}\n- (C\+\+|The Traceback)).*)"
"""Addresses, numbers of graphs and of their nodes, and where in C++ and in compiled code an exception comes from."""
ATTEMPTS = 3
"""Without the tool, too, the first run of some programs in a process gives other last bits than all later runs."""
FRAMEWORK = Framework(HEADER, SEEDED, WORDS, described, random_state, NOISE, ATTEMPTS)
PROGRAMS = Programs(FRAMEWORK, Path(__file__).parent / "random_blocks.txt")

if __name__ == "__main__":
    mindspore.runtime.launch_blocking()
    PROGRAMS.main()
