"""Rules of a layer mapping for the calls of functions inside paired layers, where the two sides name them differently.

SelfAttention:
  swapaxes: transpose
  BatchMatMul: matmul
"""

from __future__ import annotations

from msprobe.compare.alignment.in_backward import is_module
from msprobe.compare.alignment.layer_mapping import TOP
from msprobe.compare.alignment.layer_scope import Path, Scopes, scopes
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.inference.layer_map import LayerMap
from msprobe.compare.inference.mapping_text import Sections
from msprobe.compare.pairs import entry_keys
from msprobe.compare.table import LeafTable
from msprobe.core.store.reader import Dump


def function_rules(layer_map: LayerMap, table: LeafTable, target: Dump, golden: Dump) -> Sections:
    """Rules that pair functions as the table does. Where calls of one name pair with several others, no rule can say
    it and the most frequent pair gives the rule."""
    ours, theirs = _Places(target), _Places(golden)
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for pair, key in zip(table.entries, table.keys, strict=True):
        if pair.target is None or pair.golden is None or is_module(key) or key.phase != "forward":
            continue
        rule = _rule(layer_map, ours, (ours.paths[pair.target], theirs.paths[pair.golden]))
        if rule is not None:
            section, left, right = rule
            rights = counted.setdefault((section, left), {})
            rights[right] = rights.get(right, 0) + 1
    found: Sections = {}
    for (section, left), rights in counted.items():
        right = max(rights, key=lambda name: rights[name])
        if right != left:
            found.setdefault(section, {})[left] = right
    return found


class _Places:
    """Where every entry of a dump stands, by its name."""

    def __init__(self, dump: Dump) -> None:
        keys = entry_keys(dump.data, dump.construct)
        self.scopes: Scopes = scopes(Side(dump, keys))
        self.paths: dict[str, Path] = {key.name: path for key, path in zip(keys, self.scopes.paths, strict=True)}


def _rule(layer_map: LayerMap, ours: _Places, paths: tuple[Path, Path]) -> tuple[str, str, str] | None:
    """The pair as a rule of the nearest paired layer around both calls."""
    left, right = paths
    for depth in range(len(left) - 1, 0, -1):
        pair = layer_map.by_target.get(".".join(left[:depth]))
        if pair is None:
            continue
        above = tuple(pair.golden.split("."))
        cls = ours.scopes.classes.get(left[:depth])
        if cls is None or right[: len(above)] != above or len(right) <= len(above):
            return None
        return cls, ".".join(left[depth:]), ".".join(right[len(above) :])
    return (TOP, ".".join(left), ".".join(right)) if len(left) == 1 else None
