"""Calls of MindSpore's functions with small arguments, for the CPU."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from msprobe.core.backend.replaying import Argument, Constant, HeldTensor

_UNARY = """
abs ceil cos cosh erf erfc exp expm1 floor log1p neg reciprocal round rsqrt sigmoid sign sin sinh sqrt square tan tanh
trunc log acos atanh isfinite
"""
_ACTIVATIONS = "elu gelu silu leaky_relu hardswish hardsigmoid mish relu6 selu celu hardtanh logsigmoid relu"
UNARY, ACTIVATIONS = _UNARY.split(), _ACTIVATIONS.split()
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "remainder")
PREFIXES = ("Mint", "Functional", "Tensor")
NOT_THERE = frozenset({"Tensor.relu", "Mint.relu"})

Arguments = tuple[list[Argument], dict[str, Argument]]


def plain(value: Any) -> Constant:
    return Constant("plain", value)


class Values:
    """Draws the tensors of one call."""

    def __init__(self, name: str) -> None:
        self._random = np.random.default_rng(zlib.crc32(name.encode()))

    def any(self, *shape: int) -> HeldTensor:
        return HeldTensor(self._random.standard_normal(shape).astype(np.float32), "float32")

    def positive(self, *shape: int) -> HeldTensor:
        return HeldTensor((self._random.random(shape) * 0.8 + 0.1).astype(np.float32), "float32")

    def ids(self, *shape: int) -> HeldTensor:
        return HeldTensor(self._random.integers(0, 3, shape), "int64")

    def flags(self, *shape: int) -> HeldTensor:
        return HeldTensor(self._random.random(shape) < 0.5, "bool")


def _others(v: Values) -> dict[str, Arguments]:
    both: dict[str, Arguments] = {
        "matmul": ([v.any(4, 8), v.any(8, 3)], {}), "bmm": ([v.any(2, 4, 8), v.any(2, 8, 3)], {}),
        "sum": ([v.any(4, 8)], {"dim": plain(1)}), "mean": ([v.any(4, 8), plain(1)], {}),
        "cat": ([[v.any(4, 8), v.any(4, 8)]], {}), "softmax": ([v.any(4, 8), plain(-1)], {}),
        "prod": ([v.any(4, 8)], {}), "where": ([v.flags(4, 8), v.any(4, 8), v.any(4, 8)], {}),
        "clamp": ([v.any(4, 8), plain(-1.0), plain(1.0)], {}),
    }  # fmt: skip
    found = {f"{prefix}.{name}": call for prefix in ("Mint", "Functional") for name, call in both.items()}
    found |= {
        "Mint.gather": ([v.any(4, 8), plain(1), v.ids(4, 8)], {}),
        "Functional.cumsum": ([v.any(4, 8), plain(1)], {}), "Functional.stack": ([[v.any(4, 8), v.any(4, 8)]], {}),
        "Functional.topk": ([v.any(4, 8), plain(3)], {}), "Functional.argmax": ([v.any(4, 8)], {}),
        "Functional.norm": ([v.any(4, 8)], {}), "Functional.var": ([v.any(4, 8)], {}),
        "Functional.std": ([v.any(4, 8)], {}), "Functional.log_softmax": ([v.any(4, 8)], {}),
        "Functional.mse_loss": ([v.any(4, 8), v.any(4, 8)], {}), "Functional.l1_loss": ([v.any(4, 8), v.any(4, 8)], {}),
        "Functional.cross_entropy": ([v.any(4, 8), HeldTensor(np.arange(4, dtype=np.int32), "int32")], {}),
        "Functional.conv2d": ([v.any(2, 3, 8, 8), v.any(4, 3, 3, 3)], {}),
        "Functional.avg_pool2d": ([v.any(2, 3, 8, 8), plain(2)], {}),
        "Functional.max_pool2d": ([v.any(2, 3, 8, 8), plain(2)], {}),
        "Functional.batch_norm": ([v.any(4, 3, 5, 5), v.any(3), v.positive(3), v.any(3), v.any(3)], {}),
        "MintFunctional.linear": ([v.any(4, 8), v.any(3, 8), v.any(3)], {}),
        "MintFunctional.softmax": ([v.any(4, 8), plain(-1)], {}),
        "Tensor.__matmul__": ([v.any(4, 8), v.any(8, 3)], {}), "Tensor.__add__": ([v.any(4, 8), v.any(4, 8)], {}),
        "Tensor.__mul__": ([v.any(4, 8), plain(2.0)], {}), "Tensor.sum": ([v.any(4, 8)], {}),
        "Tensor.reshape": ([v.any(4, 8), plain(8), plain(4)], {}), "Primitive.ReLU": ([v.any(4, 8)], {}),
    }  # fmt: skip
    return found


def calls() -> dict[str, Arguments]:
    """Return about 150 calls by the name of the function, ``Mint.exp``."""
    found: dict[str, Arguments] = {}
    for prefix in PREFIXES:
        for name in UNARY:
            found[f"{prefix}.{name}"] = ([Values(name).positive(4, 8)], {})
        for name in BINARY:
            found[f"{prefix}.{name}"] = ([Values(name).positive(4, 8), Values(name + "2").positive(4, 8)], {})
    for name in ACTIVATIONS:
        found[f"Functional.{name}"] = ([Values(name).any(4, 8)], {})
    found |= _others(Values("others"))
    return {name: call for name, call in found.items() if name not in NOT_THERE}
