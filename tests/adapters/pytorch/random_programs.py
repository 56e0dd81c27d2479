"""Random programs of PyTorch, made of the blocks in ``random_blocks.txt``.

python -m tests.adapters.pytorch.random_programs 17              prints the program of seed 17, and what it makes
python -m tests.adapters.pytorch.random_programs 17 export fork  the same of these blocks only
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.adapters.random_programs import Framework, Programs, digest

HEADER = """
import asyncio, collections, copy, dataclasses, io, multiprocessing, os, pickle, random, threading, warnings
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
Pair = collections.namedtuple("Pair", "left right")

@dataclasses.dataclass
class Held:
    values: object
    name: str = "held"

class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})

class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        LOG.append(func.__name__)
        torch.rand(1)
        return func(*args, **(kwargs or {}))

class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        LOG.append(str(func))
        torch.rand(1)
        return func(*args, **(kwargs or {}))

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        ctx.set_materialize_grads($materialize)
        return x * factor, x.sum()
    @staticmethod
    def backward(ctx, grad, grad_sum):
        (x,) = ctx.saved_tensors
        LOG.append((grad is None, grad_sum is None))
        return (grad * ctx.factor if grad is not None else torch.zeros_like(x)), None

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(4, 4), nn.Linear(4, 3), nn.Dropout(0.3)
        self.norm = nn.BatchNorm1d(4)
    def forward(self, x, scale=1.0):
        return self.second(self.drop(torch.relu(self.norm(self.first(x))))) * scale

def made(*shape, dtype=torch.float32, grad=True):
    values = torch.randn(*shape).mul(3).to(dtype)
    return values.requires_grad_() if grad and dtype.is_floating_point else values

LOG = []
"""
SEEDED = "torch.manual_seed({seed}); random.seed({seed}); np.random.seed({seed})\nMODEL = Net()"
WORDS: dict[str, tuple[str, ...]] = {
    "backend": ("eager", "aot_eager"),
    "binary": ("add", "mul", "sub", "maximum", "atan2", "matmul"),
    "container": (
        "{'a': x, 'b': [x, None]}",
        "Pair(x, 2)",
        "(x, (x * 2, 'text'))",
        "Held(x)",
        "[]",
        "collections.OrderedDict(x=x)",
        "{1: x, None: 2}",
    ),
    "dim": ("0", "1", "-1", "5"),
    "dtype": (
        "bfloat16",
        "float16",
        "float64",
        "int8",
        "uint8",
        "int64",
        "bool",
        "float8_e4m3fn",
        "float8_e5m2",
        "uint16",
        "complex64",
        "complex32",
    ),
    "flag": ("True", "False"),
    "function": ("relu", "gelu", "softmax", "normalize", "silu", "layer_norm", "dropout"),
    "grad_mode": ("no_grad", "inference_mode", "enable_grad"),
    "hooked": ("out * 2", "None", "out.detach()", "(out,)"),
    "inplace": ("add_(1)", "mul_(2)", "relu_()", "zero_()", "__setitem__(0, 5.0)", "copy_(torch.ones(4))"),
    "materialize": ("True", "False"),
    "mode": ("Functions", "Operators"),
    "odd": ("2", "None", "float('nan')", "'text'", "[1]", "torch.ones(())", "object"),
    "optimizer": ("SGD", "Adam", "AdamW"),
    "randomness": ("different", "same", "error"),
    "reduction": ("sum", "mean", "amax", "prod", "argmax", "logsumexp"),
    "rows": ("1", "2", "3"),
    "train": ("train", "eval"),
    "unary": ("exp", "sin", "relu", "tanh", "abs", "sigmoid", "neg", "square"),
    "used": ("y.sum()", "s", "(y.sum() + s)", "y"),
    "view": (
        "t()",
        "reshape(2, 6)",
        "view(12)",
        "narrow(0, 1, 2)",
        "unsqueeze(0)",
        "expand(2, 4, 3)",
        "contiguous()",
        "flatten()",
    ),
}


def described(value: Any) -> Any:
    """Return what compares a tensor by all its bits; None for what is no tensor."""
    if not isinstance(value, torch.Tensor):
        return None
    facts = str(value.dtype), str(value.layout), value.requires_grad, type(value.grad_fn).__name__
    return (type(value).__name__, *facts, _bits(value))


def _bits(tensor: torch.Tensor) -> Any:
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return repr(tensor)
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().as_subclass(torch.Tensor)
    data = bytes(plain.flatten().view(torch.uint8).numpy()) if plain.numel() else b""
    return tuple(tensor.shape), tensor.stride(), digest(data)


def random_state() -> bytes:
    """Return the state of torch's generator."""
    return torch.get_rng_state().numpy().tobytes()


FRAMEWORK = Framework(HEADER, SEEDED, WORDS, described, random_state)
PROGRAMS = Programs(FRAMEWORK, Path(__file__).parent / "random_blocks.txt")

if __name__ == "__main__":
    PROGRAMS.main()
