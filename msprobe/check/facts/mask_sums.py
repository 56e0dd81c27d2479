"""How square masks of attention are known by their projection, which depends on the places that they hide."""

from __future__ import annotations

from functools import lru_cache

CAUSAL_MASK, NEXT, EARLIER, SWAPPED = "causal", "next", "earlier", "swapped"
"""What a mask hides: all later places; all but the next one of them; the earlier ones; all that it should not."""


@lru_cache(maxsize=64)
def mask_sums(shape: tuple[int, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the order-sensitive statistics of masks of a shape by what they hide: of those in which 1 is a hidden
    place, and of those in which it is an open one."""
    import numpy as np  # not free, and few runs have masks

    from msprobe.core.tensors.projection import projection

    length = shape[-1]
    hidden = {
        CAUSAL_MASK: 1.0 - np.tri(length),
        NEXT: 1.0 - np.tri(length, k=1),
        EARLIER: np.tri(length, k=-1),
        SWAPPED: np.tri(length),
    }
    places = {name: np.broadcast_to(one, shape) for name, one in hidden.items()}
    sums = {name: projection(one) or 0.0 for name, one in places.items()}
    return sums, {name: projection(1.0 - one) or 0.0 for name, one in places.items()}
