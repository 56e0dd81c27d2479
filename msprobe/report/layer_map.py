"""The inferred layer map as a file to look at, edit and give back with ``-lm``; and in one sentence."""

from __future__ import annotations

from pathlib import Path

from msprobe.compare.inference.layer_map import LayerMap
from msprobe.compare.run import Comparison
from msprobe.core.store.atomic import write_atomic


def write_layer_map(folder: Path, stem: str, comparison: Comparison, layer_map: LayerMap) -> Path:
    """Write ``stem.yaml`` with the map by which ``comparison`` was paired; returns its path.

    Raises:
        OSError: the file cannot be written.
    """
    from msprobe.compare.inference.function_rules import function_rules
    from msprobe.compare.inference.mapping_text import mapping_text

    path = folder / f"{stem}.yaml"
    functions = function_rules(layer_map, comparison.table, comparison.target, comparison.golden)
    write_atomic(path, [mapping_text(layer_map, functions).encode()])
    return path


def told(layer_map: LayerMap) -> str:
    """How many layers were paired, and what a person should look at."""
    fused = f", {len(layer_map.fused)} fused" if layer_map.fused else ""
    lone = len(layer_map.target_only), len(layer_map.golden_only)
    alone = f", {lone[0]} only in the target, {lone[1]} only in the golden run" if any(lone) else ""
    doubt = f"; {len(layer_map.doubtful)} are doubtful, marked LOW in the layer mapping" if layer_map.doubtful else ""
    return f"layers were paired by inference: {len(layer_map.pairs)} pairs{fused}{alone}{doubt}"
