"""Names of different frameworks and code bases folded to one vocabulary: classes, attributes, parameters, operators."""

from __future__ import annotations

import re
from functools import lru_cache

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
_PARAMETERS = {
    "gamma": "weight",
    "embedding_table": "weight",
    "kernel": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


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
