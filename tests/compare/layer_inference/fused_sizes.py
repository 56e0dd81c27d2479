"""What the gated transformers of both frameworks have in common: sizes, tokens, and how split weights become fused."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, LAYERS, VOCABULARY = 16, 2, 23
TOKENS = np.arange(12).reshape(2, 6) % VOCABULARY
LABELS = TOKENS.reshape(-1) * 3 % VOCABULARY
PARTS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def fused_weights(split: dict[str, Any]) -> dict[str, Any]:
    """The weights of the fused model: those of the parts, one after the other."""
    found = dict(split)
    for whole, parts in PARTS.items():
        for name in [name for name in split if f".{parts[0]}." in name]:
            found[name.replace(parts[0], whole)] = np.concatenate([
                found.pop(name.replace(parts[0], one)) for one in parts
            ])
    return found
