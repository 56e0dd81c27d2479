"""Read the imports of the package from its source: who imports whom, and which modules form a circle.

Imports inside functions count, because a circle of them is a circle all the same. Imports for type checkers do not:
nothing runs them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.rules.tree import module_name, sources


def imports(path: Path, *, top_level_only: bool = False) -> set[str]:
    """Return the absolute names of the modules that a file imports, imports for type checkers left out."""
    return {name for name, _ in _imported(path, top_level_only=top_level_only)}


def _imported(path: Path, *, top_level_only: bool = False) -> set[tuple[str, tuple[str, ...]]]:
    """Return each imported module and, for ``from module import ...``, the names taken from it."""
    result: set[tuple[str, tuple[str, ...]]] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            result |= {(alias.name, ()) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            result.add((node.module, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
        elif not (top_level_only and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            pending += ast.iter_child_nodes(node)
    return result


@functools.cache
def import_graph() -> Mapping[str, frozenset[str]]:
    """Return for each module of the package the modules of the package that it imports."""
    files = {module_name(path): path for path in sources()}
    graph = {}
    for name, path in files.items():
        targets = set()
        for module, attributes in _imported(path):
            submodules = {f"{module}.{attribute}" for attribute in attributes} & files.keys()
            targets |= submodules
            if not attributes or len(submodules) < len(attributes):
                targets |= {module} & files.keys()
        graph[name] = frozenset(targets - {name})
    return graph


def importers() -> Mapping[str, frozenset[str]]:
    """Return for each module of the package the modules of the package that import it."""
    graph = import_graph()
    return {name: frozenset(other for other, targets in graph.items() if name in targets) for name in graph}


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the sets of two or more modules that reach each other by imports (Tarjan 1972), each sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in graph[name]:
            if target not in order:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == order[name]:
            begin = stack.index(name)
            if len(stack) - begin > 1:
                result.append(sorted(stack[begin:]))
            del stack[begin:]

    for name in graph:
        if name not in order:
            visit(name)
    return sorted(result)
