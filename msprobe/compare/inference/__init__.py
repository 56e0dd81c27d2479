"""The layer map of two dumps, inferred: which module of one model stands for which of the other, without a file.

layer_map = infer_layer_map(target, golden)          # two loaded dumps, of one framework or of two
for pair in layer_map.pairs:
    print(pair.target, pair.golden, pair.confidence, pair.evidence)
"""

from msprobe.compare.inference.infer import infer_layer_map
from msprobe.compare.inference.layer_map import FusedPair, LayerMap, LayerPair

__all__ = ["FusedPair", "LayerMap", "LayerPair", "infer_layer_map"]
