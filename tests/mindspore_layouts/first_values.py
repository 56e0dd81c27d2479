"""The first values of the model and of its input: the programs of both frameworks begin with the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, HIDDEN, LAYERS = 4, 8, 2
EVEN, UNEVEN = (4, 4), (5, 3)


def parts(rank: int, lengths: tuple[int, ...], fault: str = "") -> list[dict[str, Any]]:
    """Return the values of each layer on a rank that has ``lengths[rank]`` of the hidden units.

    With the fault ``weight`` or ``norm`` the last rank has other values of a part or of a copy. The programs make the
    others: ``sum`` and ``gradient`` add up no output or no gradient of the second layer, ``scale`` makes it larger.
    """
    generator = np.random.default_rng(0)
    begin = sum(lengths[:rank])
    own = slice(begin, begin + lengths[rank])
    layers = []
    for _ in range(LAYERS):
        up = generator.normal(size=(HIDDEN, WIDTH)).astype(np.float32)
        down = generator.normal(size=(WIDTH, HIDDEN)).astype(np.float32)
        scale = generator.uniform(0.5, 1.5, WIDTH).astype(np.float32)
        layers.append({"up": up[own].copy(), "down": down[:, own].copy(), "scale": scale})
    if rank == len(lengths) - 1 and fault in ("weight", "norm"):
        layers[1]["up" if fault == "weight" else "scale"][:] *= 1.5
    return layers


def samples() -> Any:
    """Return the input of the model."""
    return np.random.default_rng(1).normal(size=(3, WIDTH)).astype(np.float32)
