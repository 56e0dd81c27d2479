"""Names of different frameworks and code bases folded to one vocabulary: classes, attributes, parameters, operators.

Functions of two frameworks under one name: by the published table, then by the bare name of the operator.

``Mint.add``, ``Torch.add``, ``Tensor.__add__`` and ``Primitive.add.Add`` are all ``add``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msprobe.compare.alignment.cross_framework import PARAMETERS, pytorch_name
from msprobe.core.store.record_walk import OUTPUT, is_tensor, leaves

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
_NOISE = frozenset({"self", "module", "parallel", "fused", "te"})
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
    """``Dense`` and ``Linear`` are one class, and so are ``LayerNorm`` and ``FusedLayerNorm``."""
    low = name.lower()
    return _CLASSES.get(low, low)


def fold_parameter(name: str) -> str:
    """The PyTorch name of a parameter: ``gamma`` and ``embedding_table`` are ``weight``, ``beta`` is ``bias``."""
    return _PARAMETERS.get(name, name)


@lru_cache(maxsize=65536)
def class_likeness(left: str, right: str) -> float:
    """How alike two class names are, 0..1: equal after folding, else the share of common words."""
    if left == right or fold_class(left) == fold_class(right):
        return 1.0
    return 0.9 * _dice(_words(left), _words(right))


@lru_cache(maxsize=65536)
def attribute_likeness(left: str, right: str) -> float:
    """How alike two attribute names (or short paths) are, 0..1. Two different numbers are half alike."""
    if left == right:
        return 1.0
    if left.isdigit() and right.isdigit():
        return 0.5
    return 0.95 * _dice(_words(left), _words(right))


def _words(name: str) -> frozenset[str]:
    words = [_WORD_SYNONYMS.get(word.lower(), word.lower()) for word in _WORD.findall(name)]
    return frozenset(words) - _NOISE or frozenset(words)


def _dice(left: frozenset[str], right: frozenset[str]) -> float:
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
    """The name under which both frameworks' spellings of a function meet; communication keeps its prefix."""
    translated = pytorch_name(stem)
    prefix, _, rest = translated.partition(".")
    bare = rest.rpartition(".")[2].removeprefix("npu_").replace("_", "").lower()
    name = _OPERATOR_SYNONYMS.get(bare, bare)
    return f"{_COLLECTIVES}.{name}" if prefix == _COLLECTIVES else f"~{name}"


def same_form(ours: Any, theirs: Any) -> bool:
    """Whether two records of function calls have tensors of the same shapes, in the same order, in and out.

    A forward call may give more after the first results: what a primitive keeps for its backward (the mean and variance
    of a normalization).
    """
    (given, made), (others_given, others_made) = _shapes(ours), _shapes(theirs)
    if given != others_given or bool(made) != bool(others_made):
        return False
    shorter = min(len(made), len(others_made))
    return made[:shorter] == others_made[:shorter]


def _shapes(body: Any) -> tuple[list[list[int]], list[list[int]]]:
    """Of the tensors given, and of those made."""
    found: tuple[list[list[int]], list[list[int]]] = [], []
    for leaf in leaves("", body):
        if is_tensor(leaf.raw):
            found[leaf.slot == OUTPUT].append(leaf.raw["shape"])
    return found
