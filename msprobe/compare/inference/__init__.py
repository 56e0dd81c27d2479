"""The layer map of two dumps, inferred: which module of one model stands for which of the other, without a file.

layer_map = infer_layer_map(target, golden)          # two loaded dumps, of one framework or of two
for pair in layer_map.pairs:
    print(pair.target, pair.golden, pair.confidence, pair.evidence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.compare.inference.layer_map import FusedPair, LayerMap, LayerPair

if TYPE_CHECKING:
    from msprobe.compare.inference.infer import infer_layer_map

__all__ = ["FusedPair", "LayerMap", "LayerPair", "infer_layer_map"]


def __getattr__(name: str) -> Any:
    if name != "infer_layer_map":  # every comparison imports the values above, few need the inference
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from msprobe.compare.inference.infer import infer_layer_map

    return infer_layer_map
