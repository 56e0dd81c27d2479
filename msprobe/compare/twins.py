"""The leaves of two entries of the same structure, found in one walk over both.

Most pairs of entries are like this: the suffix of a leaf is then made once for both sides, and the leaves pair by
position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
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
        names, children = _numbered(suffix, len(left)), zip(left, right, strict=True)
    elif _is_tree(left) and _is_tree(right) and list(left) == list(right):
        names, children = _named(suffix, tuple(left)), zip(left.values(), right.values(), strict=True)
    else:
        return False
    mine, theirs = found
    for name, (one, other) in zip(names, children, strict=True):
        if (one is None and other is None) or (_is_leaf(one) and _is_leaf(other)):
            mine.append(_leaf((name, slot, one)))
            theirs.append(_leaf((name, slot, other)))
        elif depth == _DEPTH or not _walk(found, name, slot, (one, other), depth + 1):
            return False
    return True


@lru_cache(4096)
def _numbered(suffix: str, count: int) -> tuple[str, ...]:
    """The names of the items of a list; few serve many calls."""
    return tuple(f"{suffix}.{number}" for number in range(count))


@lru_cache(4096)
def _named(suffix: str, keys: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(f"{suffix}.{key}" for key in keys)


def _is_special(name: str) -> bool:
    return name.endswith(".debug") or ".parameters_grad" in name


def _is_leaf(node: Any) -> bool:
    return type(node) is dict and type(node.get("type")) is str


def _is_tree(node: Any) -> bool:
    return type(node) is dict and "class_type" not in node and type(node.get("type")) is not str
