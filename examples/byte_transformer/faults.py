"""Faults to plant into a healthy model: each changes one number inside one module and nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """`module.attribute = value`; `story` is how such a fault comes about in practice."""

    module: str
    attribute: str
    value: float | int
    story: str


FAULTS = {
    "attention-scale": Fault("blocks.1.attention", "scale", 1.0, "the scores are no longer divided by sqrt(channels)"),
    "norm-eps": Fault("blocks.2.mlp_norm", "eps", 1e-3, "a port took another default for eps"),
    "rotary-base": Fault("blocks.1.attention.rotary", "base", 1_000.0, "the base was not read from the configuration"),
    "causal-mask": Fault("blocks.0.attention", "first_hidden", 2, "off by one: each position sees the next byte"),
}
