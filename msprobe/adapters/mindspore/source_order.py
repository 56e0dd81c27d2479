"""Find the order in which the source of a cell calls its parts.

A compiled graph has no order of calls that do not depend on each other; the source has one.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import weakref
from collections.abc import Iterator
from typing import Any

_parts_by_class: weakref.WeakKeyDictionary[type[Any], tuple[str, ...]] = weakref.WeakKeyDictionary()


def parts_called(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the parts that ``construct`` of a class of cells calls as ``self.NAME(...)``.

    They are in the order in which Python evaluates them. Without source the result is empty.
    """
    if kind not in _parts_by_class:
        _parts_by_class[kind] = _read(kind)
    return _parts_by_class[kind]


def _read(kind: type[Any]) -> tuple[str, ...]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind.construct)))
    except (OSError, TypeError, SyntaxError, AttributeError):
        return ()
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or not function.args.args:
        return ()
    return tuple(_called(function, function.args.args[0].arg))


def _called(node: ast.AST, self_name: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        yield from _called(child, self_name)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == self_name:
            yield node.func.attr
