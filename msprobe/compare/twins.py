"""The leaves of two entries of the same structure, found in one walk over both.

Most pairs of entries are like this: the suffix of a leaf is then made once for both sides, and the leaves pair by
position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from msprobe.compare.items import SECTIONS, Leaf

Twins = tuple[list[Leaf], list[Leaf]]
_DEPTH = 30
_leaf = cast(Callable[[tuple[str, str, Any]], Leaf], partial(tuple.__new__, Leaf))


def twin_leaves(name: str, other: str, ours: Any, theirs: Any) -> Twins | None:
    """What ``items.leaves`` finds in both entries; None where they differ in structure, or are not plain calls."""
    if (
        type(ours) is not dict
        or type(theirs) is not dict
        or _is_special(name)
        or (other != name and _is_special(other))
    ):
        return None
    found: Twins = [], []
    for section, slot, prefix in SECTIONS:
        left, right = ours.get(section), theirs.get(section)
        if (left or right) and not (left and right and _walk(found, prefix, slot, (left, right), 0)):
            return None
    return found


def _walk(found: Twins, suffix: str, slot: str, nodes: tuple[Any, Any], depth: int) -> bool:
    """Append the leaves below two nodes; False when their structures differ."""
    left, right = nodes
    if type(left) is list and type(right) is list and len(left) == len(right):
        children: Any = zip(range(len(left)), left, right, strict=True)
    elif _is_tree(left) and _is_tree(right) and list(left) == list(right):
        children = zip(left, left.values(), right.values(), strict=True)
    else:
        return False
    for key, mine, other in children:
        kinds = type(mine), type(other)
        if kinds == _DICTS and type(mine.get("type")) is str and type(other.get("type")) is str:
            name = f"{suffix}.{key}"
            found[0].append(_leaf((name, slot, mine)))
            found[1].append(_leaf((name, slot, other)))
        elif mine is None and other is None:
            name = f"{suffix}.{key}"
            found[0].append(_leaf((name, slot, None)))
            found[1].append(_leaf((name, slot, None)))
        elif depth == _DEPTH or not _walk(found, f"{suffix}.{key}", slot, (mine, other), depth + 1):
            return False
    return True


_DICTS = (dict, dict)


def _is_special(name: str) -> bool:
    return name.endswith(".debug") or ".parameters_grad" in name


def _is_tree(node: Any) -> bool:
    return type(node) is dict and "class_type" not in node and type(node.get("type")) is not str
