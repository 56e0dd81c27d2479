"""Random programs: text made of blocks, one seed each, which must run with the tool as they run without it.

``program(seed)`` returns the text: a function for each block of ``random_blocks.txt``, in which the words after ``$``
are drawn from ``WORDS``. ``run(load(text))`` executes it and returns what each block has made: values, gradients, the
type and text of an exception, and the state of all random generators afterwards.

    python -m tests.adapters.pytorch.random_programs 17        prints the program of seed 17, and what it makes
"""

from __future__ import annotations

import hashlib
import random
import re
import string
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
        ctx.set_materialize_grads($$materialize)
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
_SOURCE = (Path(__file__).parent / "random_blocks.txt").read_text(encoding="utf-8")
_FOUND = re.findall(r"^== (\w+)( \(rare\))?\n(.*?)(?=^== |\Z)", _SOURCE, re.MULTILINE | re.DOTALL)
BLOCKS = {name: body.strip() for name, rare, body in _FOUND if not rare}
RARE_BLOCKS = {name: body.strip() for name, rare, body in _FOUND if rare}
"""Blocks that take a second or more."""
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


def program(seed: int, blocks: int = 12, rare: float = 0.0) -> str:
    """Return the text of one program; ``rare`` is the share of blocks that take a second or more."""
    rng = random.Random(seed)
    lines = [
        _substituted(rng, HEADER.replace("$$", "$")),
        f"torch.manual_seed({seed}); random.seed({seed}); np.random.seed({seed})",
        "MODEL = Net()",
    ]
    for number in range(blocks):
        table = RARE_BLOCKS if rng.random() < rare else BLOCKS
        name = rng.choice(list(table))
        body = _substituted(rng, table[name]).replace("\n", "\n    ")
        lines.append(f"\ndef block_{number}_{name}():\n    {body}")
    return "\n".join(lines) + "\n"


def _substituted(rng: random.Random, text: str) -> str:
    return string.Template(text).substitute({word: rng.choice(values) for word, values in WORDS.items()})


def load(text: str) -> dict[str, Any]:
    """Return the names of a program that was defined and not run; ``MODEL`` is its model."""
    module = types.ModuleType("random_program")
    sys.modules[module.__name__] = module  # where dataclasses and pickle look for it
    exec(compile(text, "<program>", "exec"), vars(module))
    return vars(module)


def run(names: dict[str, Any]) -> list[Any]:
    """Run the blocks of a loaded program and return what each has made."""
    return [(name, *_made_by(block, names["LOG"])) for name, block in list(names.items()) if name.startswith("block_")]


def _made_by(block: Any, log: list[Any]) -> Iterator[Any]:
    del log[:]
    try:
        yield described(block())
    except Exception as error:  # noqa: BLE001  (wrong calls are part of the programs)
        yield type(error).__name__, _without_addresses(str(error))
    yield described(log)
    yield (
        digest(torch.get_rng_state().numpy().tobytes()),
        digest(repr((random.getstate(), np.random.get_state())).encode()),
    )


def described(value: Any) -> Any:
    """Return ``value`` in a form that compares by all its bits."""
    if isinstance(value, torch.Tensor):
        facts = (
            type(value).__name__,
            str(value.dtype),
            str(value.layout),
            value.requires_grad,
            type(value.grad_fn).__name__,
        )
        return (*facts, _bits(value))
    if isinstance(value, dict):
        return type(value).__name__, [(described(key), described(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(part) for part in value]
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, described(vars(value))
    return _without_addresses(repr(value))


def _bits(tensor: torch.Tensor) -> Any:
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return repr(tensor)
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().as_subclass(torch.Tensor)
    return (
        tuple(tensor.shape),
        tensor.stride(),
        digest(bytes(plain.flatten().view(torch.uint8).numpy())) if plain.numel() else "",
    )


def digest(data: bytes) -> str:
    """Return a short checksum of ``data``."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)


if __name__ == "__main__":
    source = program(int(sys.argv[1]), rare=float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
    print(source)
    for made in run(load(source)):
        print(made)
