"""The modules of PyTorch that the nodes of an exported model come from.

Both exporters of PyTorch leave them in the file:

    torch.onnx.export(dynamo=True)    metadata of a node: paths and classes, ``act@1`` for the second call of ``act``
    torch.onnx.export(dynamo=False)   the name of a node: /blocks.0/fc1/MatMul; no classes

A name of the older exporter has the attribute of each module inside the one around it. A module in a list or in a
Sequential has the name of the container too (``/layer1/layer1.0/conv1/Conv`` is ``layer1.0.conv1``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_ADDED = re.compile(r"_output_\d+_\w+$")
"""How names end that a quantizer gives to nodes which it puts behind another node."""
_PATHS, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


@dataclass(frozen=True, slots=True)
class Scope:
    """One call of a module: its path in the model, its class ("" where the file does not tell), and which call."""

    path: str
    cls: str
    call: int


def scopes_of(
    names: Sequence[str], metadata: Sequence[Mapping[str, str]], weights: Collection[str]
) -> list[tuple[Scope, ...]]:
    """Return the modules around each node, from outside to inside, the model itself left out.

    Args:
        names: the names of the nodes, in the order of the graph.
        metadata: what the exporter wrote beside each.
        weights: the names of the weights, which begin with the paths of their modules.
    """
    known = {name[:cut] for name in weights for cut in range(len(name)) if name[cut] == "."}
    calls = _Calls()
    result: list[tuple[Scope, ...]] = []
    for name, beside in zip(names, metadata, strict=True):
        if _PATHS in beside:
            result.append(_from_metadata(beside))
        elif name.startswith("/"):
            paths = _paths(name.strip("/").split("/")[:-1], known)
            result.append(calls.latest(paths) if _ADDED.search(name) else calls.scopes(paths))
        else:
            result.append(())
    return result


def _from_metadata(beside: Mapping[str, str]) -> tuple[Scope, ...]:
    paths, classes = _texts(beside[_PATHS]), _texts(beside.get(_CLASSES, ""))
    if len(classes) != len(paths):
        classes = [""] * len(paths)
    scopes = []
    for path, cls in list(zip(paths, classes, strict=True))[:-1]:  # the last one is the operation
        plain, _, call = path.partition("@")
        if plain:
            scopes.append(Scope(plain, cls.rpartition(".")[2], int(call) if call.isdecimal() else 0))
    return tuple(scopes)


def _texts(literal: str) -> list[str]:
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(each) for each in value] if isinstance(value, list) else []


def _paths(parts: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the path of each module around a node of the older exporter."""
    paths: list[str] = []
    for part in parts:
        around = paths[-1] if paths else ""
        last, _, rest = part.rpartition(".")
        inside = f"{around}.{part}" if around else part
        repeated = f"{around}.{rest}"
        container = bool(last) and (around == last or around.endswith(f".{last}"))
        paths.append(repeated if container and inside not in known else inside)
    return paths


class _Calls:
    """Counts the calls of modules: one ends where a node of another module follows."""

    def __init__(self) -> None:
        self._open: tuple[Scope, ...] = ()
        self._count: dict[str, int] = {}

    def latest(self, paths: Sequence[str]) -> tuple[Scope, ...]:
        """Return the calls that were counted last for these modules."""
        return tuple(Scope(path, "", self._count.get(path, 0)) for path in paths)

    def scopes(self, paths: Sequence[str]) -> tuple[Scope, ...]:
        """Return the calls for the next node, whose modules are ``paths``."""
        scopes: list[Scope] = []
        same = True
        for depth, path in enumerate(paths):
            same = same and len(self._open) > depth and self._open[depth].path == path
            if same:
                scopes.append(self._open[depth])
                continue
            call = self._count.get(path, -1) + 1
            self._count[path] = call
            scopes.append(Scope(path, "", call))
        self._open = tuple(scopes)
        return self._open
