"""Which item was compared with which, as a YAML file that ``-dm`` takes: edit it and compare again.

The inferred layer map as a file to look at, edit and give back with ``-lm``; and in one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from msprobe.compare.alignment.layer_map import LayerMap
from msprobe.compare.comparison import Comparison
from msprobe.compare.rows.cells import item_names
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.safe_files import write_atomic

_PLAIN = re.compile(r"[A-Za-z_][\w.]*\Z|N/A\Z", re.ASCII)


def write_data_mapping(folder: Path, stem: str, table: LeafTable) -> Path:
    """Write ``stem.yaml`` with every item of the target and its golden item, or ``N/A``; returns its path.

    Raises:
        OSError: the file cannot be written.
    """
    path = folder / f"{stem}.yaml"
    write_atomic(path, (f"{_text(ours)}: {_text(theirs)}\n".encode() for ours, theirs in _pairs(table)))
    return path


def _pairs(table: LeafTable) -> Iterator[tuple[str, str]]:
    targets, goldens = item_names(table, 0, len(table.entries))
    return ((ours, theirs) for ours, theirs in zip(targets, goldens, strict=True) if ours != "N/A")


def _text(name: str) -> str:
    """The name as YAML reads it back."""
    return name if _PLAIN.match(name) else json.dumps(name)


def write_layer_map(folder: Path, stem: str, comparison: Comparison, layer_map: LayerMap) -> Path:
    """Write ``stem.yaml`` with the map by which ``comparison`` was paired; returns its path.

    Raises:
        OSError: the file cannot be written.
    """
    from msprobe.compare.mapping_export import function_rules, mapping_text

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
