"""Names of different frameworks and code bases folded to one vocabulary: classes, attributes, parameters, operators.

Functions are folded by the published table first, and then by the bare name of the operator: ``Mint.add``,
``Torch.add``, ``Tensor.__add__`` and ``Primitive.add.Add`` are all ``add``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msprobe.compare.alignment.cross_framework import pytorch_name
from msprobe.compare.records.parameter_names import PARAMETERS
from msprobe.core.store.record_walk import OUTPUT, is_tensor, leaves
from msprobe.trace.leaves import element_count

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_WORD_SYNONYMS = {
    "attention": "attn",
    "ffn": "mlp",
    "ff": "mlp",
    "feedforward": "mlp",
    "ln": "norm",
    "layernorm": "norm",
    "rmsnorm": "norm",
    "emb": "embed",
    "embedding": "embed",
    "embeddings": "embed",
    "wte": "embed",
    "tok": "word",
    "token": "word",
    "tokens": "word",
    "projection": "proj",
    "dense": "linear",
    "fc": "linear",
    "wq": "q",
    "wk": "k",
    "wv": "v",
    "wo": "o",
    "query": "q",
    "key": "k",
    "value": "v",
    "out": "o",
    "output": "o",
    "block": "layers",
    "blocks": "layers",
    "layer": "layers",
    "h": "layers",
    "activation": "act",
    "cell": "module",
}
_IGNORED_WORDS = frozenset({"self", "module", "parallel", "fused", "te"})
_CLASSES = {
    "dense": "linear",
    "sequentialcell": "sequential",
    "celllist": "modulelist",
    "columnparallellinear": "linear",
    "rowparallellinear": "linear",
    "vocabparallelembedding": "embedding",
    "vocabembedding": "embedding",
    "fusedlayernorm": "layernorm",
    "fusedrmsnorm": "rmsnorm",
}
_PARAMETERS = {**PARAMETERS, "kernel": "weight"}


def fold_class(name: str) -> str:
    """Return the common name of a class: ``linear`` for ``Dense`` and ``Linear``."""
    low = name.lower()
    return _CLASSES.get(low, low)


def fold_parameter(name: str) -> str:
    """Return PyTorch's name of a parameter: ``weight`` for ``gamma`` and ``embedding_table``, ``bias`` for ``beta``."""
    return _PARAMETERS.get(name, name)


@lru_cache(maxsize=65536)
def class_likeness(left: str, right: str) -> float:
    """Return how alike two class names are, from 0 to 1: 1 when equal after folding, else by their common words."""
    if left == right or fold_class(left) == fold_class(right):
        return 1.0
    return 0.9 * _dice(_words(left), _words(right))


@lru_cache(maxsize=65536)
def attribute_likeness(left: str, right: str) -> float:
    """Return how alike two attribute names or short paths are, from 0 to 1; 0.5 for two different numbers."""
    if left == right:
        return 1.0
    if left.isdigit() and right.isdigit():
        return 0.5
    return 0.95 * _dice(_words(left), _words(right))


def _words(name: str) -> frozenset[str]:
    words = [_WORD_SYNONYMS.get(word.lower(), word.lower()) for word in _WORD.findall(name)]
    return frozenset(words) - _IGNORED_WORDS or frozenset(words)


def _dice(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the Dice coefficient: the share of common words, from 0 to 1."""
    total = len(left) + len(right)
    return 2.0 * len(left & right) / total if total else 0.0


_COLLECTIVES = "Distributed"
_OPERATOR_SYNONYMS = {
    "truediv": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "batchmatmul": "matmul",
    "bmm": "matmul",
    "swapaxes": "transpose",
    "reducemean": "mean",
    "reducesum": "sum",
    "logicalor": "or",
    "logicaland": "and",
    "flashattentionscore": "fusionattention",
}


def operator(stem: str) -> str:
    """Return the common name of a function in all frameworks; functions of communication keep their prefix."""
    translated = pytorch_name(stem)
    prefix, _, rest = translated.partition(".")
    bare = rest.rpartition(".")[2].removeprefix("npu_").replace("_", "").lower()
    name = _OPERATOR_SYNONYMS.get(bare, bare)
    return f"{_COLLECTIVES}.{name}" if prefix == _COLLECTIVES else f"~{name}"


def same_sizes(target: Any, golden: Any) -> bool:
    """Return whether two records of function calls have inputs and outputs of the same numbers of elements: inputs in
    any order, outputs in the same one.

    Shapes may differ: one framework computes on a view of other axes. One of the calls may return more tensors at the
    end: what a primitive keeps for its backward call, such as the mean and variance of a normalization.
    """
    (inputs, outputs), (golden_inputs, golden_outputs) = _sizes(target), _sizes(golden)
    if sorted(inputs) != sorted(golden_inputs) or bool(outputs) != bool(golden_outputs):
        return False
    common = min(len(outputs), len(golden_outputs))
    return outputs[:common] == golden_outputs[:common]


def _sizes(body: Any) -> tuple[list[float], list[float]]:
    """Return the numbers of elements of the input tensors, and of the output tensors."""
    sizes: tuple[list[float], list[float]] = [], []
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            sizes[leaf.slot == OUTPUT].append(element_count(leaf.raw))
    return sizes
