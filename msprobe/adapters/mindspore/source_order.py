"""In which order the source of a cell calls its parts: a compiled graph knows no order of calls that do not depend on
each other, and the source does.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import weakref
from collections.abc import Iterator
from typing import Any

_known: weakref.WeakKeyDictionary[type[Any], tuple[str, ...]] = weakref.WeakKeyDictionary()


def parts_called(kind: type[Any]) -> tuple[str, ...]:
    """The names of the parts that ``construct`` of a class of cells calls as ``self.NAME(...)``, in the order in which
    Python evaluates them; nothing when there is no source.
    """
    if kind not in _known:
        _known[kind] = _read(kind)
    return _known[kind]


def _read(kind: type[Any]) -> tuple[str, ...]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind.construct)))
    except (OSError, TypeError, SyntaxError, AttributeError):
        return ()
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or not function.args.args:
        return ()
    return tuple(_called(function, function.args.args[0].arg))


def _called(node: ast.AST, myself: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        yield from _called(child, myself)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == myself:
            yield node.func.attr
