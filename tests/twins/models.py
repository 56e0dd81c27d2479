"""Whole models that are written in both frameworks: names, sizes, inputs, and the faults that are planted.

MindSpore's models call their modules otherwise (``NAMES``), and have separate projections where PyTorch's GPT has one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

WIDTH, HEADS, VOCABULARY, CLASSES, EXPERTS = 8, 2, 11, 3, 4
MODELS = ("mlp", "cnn", "encoder", "gpt", "lstm", "moe")
CLEAN, CODE, WEIGHT = "clean", "code", "weight"
VARIANTS = (CLEAN, CODE, WEIGHT)
LEVELS = ("L0", "mix")


class Fault(NamedTuple):
    """A planted fault: what is wrong, and the modules of PyTorch and of MindSpore of which one must be named."""

    what: str
    pytorch: str
    mindspore: str


FAULTS = {
    ("mlp", CODE): Fault("sigmoid for relu", "act2", "activation_b"),
    ("mlp", WEIGHT): Fault("fc2.weight", "fc2", "dense_b"),
    ("cnn", CODE): Fault("eps 0.1 for 1e-5", "bn2", "norm_b"),
    ("cnn", WEIGHT): Fault("bn1.weight", "bn1", "norm_a"),
    ("encoder", CODE): Fault("scores are not scaled", "layers.1.attn", "blocks.1.attention"),
    ("encoder", WEIGHT): Fault("layers.0.attn.k_proj.weight", "layers.0.attn.k_proj", "blocks.0.attention.key"),
    ("gpt", CODE): Fault("no causal mask", "h.1.attn", "layers.1.attention"),
    ("gpt", WEIGHT): Fault("h.0.attn.c_attn.weight", "h.0.attn.c_attn", "layers.0.attention.query"),
    ("lstm", CODE): Fault("the first step for the last", "head", "classifier"),
    ("lstm", WEIGHT): Fault("lstm.weight_hh_l0", "lstm", "rnn"),
    ("moe", CODE): Fault("weights of experts are not normalised", "moe", "mixture"),
    ("moe", WEIGHT): Fault("moe.experts.2.up.weight", "moe.experts.2.up", "mixture.experts.2.first"),
}
NAMES = {
    "mlp": {"dense_a": "fc1", "dense_b": "fc2", "dense_c": "fc3"},
    "cnn": {"conv_a": "conv1", "norm_a": "bn1", "conv_b": "conv2", "norm_b": "bn2", "classifier": "head"},
    "encoder": {
        "word_embedding": "embed",
        "blocks": "layers",
        "attention": "attn",
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "dense": "o_proj",
        "layernorm1": "norm1",
        "layernorm2": "norm2",
        "mapping": "up",
        "projection": "down",
        "classifier": "head",
    },
    "gpt": {
        "word_embedding": "wte",
        "position_embedding": "wpe",
        "layers": "h",
        "layernorm1": "ln_1",
        "layernorm2": "ln_2",
        "attention": "attn",
        "dense": "c_proj",
        "mapping": "c_fc",
        "projection": "mlp_proj",
        "layernorm": "ln_f",
    },
    "lstm": {"word_embedding": "embed", "rnn": "lstm", "classifier": "head"},
    "moe": {
        "word_embedding": "embed",
        "mixture": "moe",
        "gate": "router",
        "first": "up",
        "second": "down",
        "classifier": "head",
    },
}
"""By model: attributes of MindSpore's to those of PyTorch's."""
PARAMETERS = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", "moving_mean": "running_mean"}
PARAMETERS |= {"moving_variance": "running_var"}
FUSED = ("query", "key", "value")
"""The projections in MindSpore of ``c_attn`` in PyTorch, in the order of its rows."""


def inputs(model: str) -> tuple[Any, Any]:
    """Return what a model is given, and the labels: one per row of the logits."""
    random = np.random.default_rng(1)
    if model == "mlp":
        return random.standard_normal((6, WIDTH)).astype(np.float32), np.arange(6) % CLASSES
    if model == "cnn":
        return random.standard_normal((4, 3, 8, 8)).astype(np.float32), np.arange(4) % CLASSES
    tokens = random.integers(0, VOCABULARY, (3, 5)).astype(np.int32)
    return tokens, (tokens.reshape(-1) * 3 % VOCABULARY if model == "gpt" else np.arange(3) % CLASSES)


def faulty(weights: dict[str, Any], model: str, variant: str) -> dict[str, Any]:
    """Return the weights of a variant, from those of the correct model under PyTorch's names."""
    if variant != WEIGHT:
        return weights
    name = FAULTS[model, WEIGHT].what
    changed = weights[name].copy()
    changed[0] = changed[0] * np.float32(1.7) + np.float32(0.1)
    return {**weights, name: changed}


def twin_name(model: str, name: str) -> str:
    """Return PyTorch's name of a parameter of MindSpore's model."""
    *path, last = name.split(".")
    return ".".join([*(NAMES[model].get(part, part) for part in path), PARAMETERS.get(last, last)])


def twin_value(model: str, name: str, weights: dict[str, Any]) -> Any:
    """Return the value of a parameter of MindSpore's model."""
    *path, projection, last = name.split(".")
    if model == "gpt" and projection in FUSED:
        return np.split(weights[twin_name(model, ".".join([*path, "c_attn", last]))], 3)[FUSED.index(projection)]
    return weights[twin_name(model, name)]
