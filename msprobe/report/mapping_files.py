"""Mappings of a comparison as YAML files, to look at, edit and give back to the next comparison.

``write_data_mapping`` writes which item was compared with which (``-dm``), ``write_layer_map`` the inferred pairs of
layers (``-lm``); ``layer_map_note`` says the latter in one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compare.comparison import Comparison
from msprobe.compare.rows.cells import item_names
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.safe_files import write_atomic

if TYPE_CHECKING:
    from msprobe.compare.alignment.layer_map import LayerMap

_PLAIN = re.compile(r"[A-Za-z_][\w.]*\Z|N/A\Z", re.ASCII)


def write_data_mapping(folder: Path, stem: str, table: LeafTable) -> Path:
    """Write ``stem.yaml`` with every item of the target and its golden item, or ``N/A``; return its path.

    Raises:
        OSError: the file cannot be written.
    """
    path = folder / f"{stem}.yaml"
    write_atomic(path, (f"{_yaml_name(left)}: {_yaml_name(right)}\n".encode() for left, right in _item_pairs(table)))
    return path


def _item_pairs(table: LeafTable) -> Iterator[tuple[str, str]]:
    """Yield the name of each item of the target, and that of its golden item."""
    targets, goldens = item_names(table, 0, len(table.entries))
    return ((target, golden) for target, golden in zip(targets, goldens, strict=True) if target != "N/A")


def _yaml_name(name: str) -> str:
    """Return a name as YAML reads it: quoted where it would be read as something else than a text."""
    return name if _PLAIN.match(name) else json.dumps(name)


def write_layer_map(folder: Path, stem: str, comparison: Comparison, layer_map: LayerMap) -> Path:
    """Write ``stem.yaml`` with the map by which ``comparison`` was paired; return its path.

    Raises:
        OSError: the file cannot be written.
    """
    from msprobe.compare.mapping_export import function_rules, mapping_text  # loads YAML

    path = folder / f"{stem}.yaml"
    functions = function_rules(layer_map, comparison.table, comparison.target, comparison.golden)
    write_atomic(path, [mapping_text(layer_map, functions).encode()])
    return path


def layer_map_note(layer_map: LayerMap) -> str:
    """Return a sentence: how many layers were paired by inference, and how many a person should check."""
    fused = f", {len(layer_map.fused)} fused" if layer_map.fused else ""
    unpaired = len(layer_map.target_only), len(layer_map.golden_only)
    alone = f", {unpaired[0]} only in the target, {unpaired[1]} only in the golden run" if any(unpaired) else ""
    doubt = f"; {len(layer_map.doubtful)} are doubtful, marked LOW in the layer mapping" if layer_map.doubtful else ""
    return f"layers were paired by inference: {len(layer_map.pairs)} pairs{fused}{alone}{doubt}"
