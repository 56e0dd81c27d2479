"""Build the sections of an entry from single tensors that arrive with their paths."""

from __future__ import annotations

from typing import Any

from msprobe.core.capture.describe import Node
from msprobe.core.selection.modes import Modes

Path = tuple[int | str, ...]
Section = dict[Path, Node]


def section_tree(leaves: Section, kind: type) -> Node:
    """Return lists and dicts with each leaf at its path, and null at positions of a list that got no leaf."""
    below: dict[int | str, Section] = {}
    for path, node in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = node
    parts = {
        step: inner[()] if () in inner else section_tree(inner, _container(inner)) for step, inner in below.items()
    }
    if kind is dict:
        return dict(parts)
    length = 1 + max((step for step in parts if isinstance(step, int)), default=-1)
    return [parts.get(position) for position in range(length)]


def gradient_body(sections: dict[str, Section], modes: Modes) -> dict[str, Any]:
    """Return the body of a backward entry: ``input`` are gradients of outputs, ``output`` those of the arguments."""
    body: dict[str, Any] = {}
    if modes.input:
        body["input"] = section_tree(sections.get("input", {}), list)
    if modes.output:
        body["output"] = section_tree(sections.get("output", {}), list)
    return body


def _container(inner: Section) -> type:
    return list if all(isinstance(path[0], int) for path in inner) else dict
