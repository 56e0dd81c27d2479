"""Where an entry stands in the model: the path of attributes down to it, with the class of each module on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.compare.alignment.frame_scope import frame_scope
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.pairs import parent_of
from msprobe.core.naming import ModuleName, NameSyntaxError, parse_entry

Path = tuple[str, ...]
_STAGED, _LAYERS = "ParallelTransformer", "layers"


@dataclass(frozen=True, slots=True)
class Scopes:
    """``paths`` has one path per entry; ``classes`` the class of every module path."""

    paths: list[Path]
    classes: Mapping[Path, str]


def scopes(side: Side) -> Scopes:
    """The scopes of all entries. A backward entry has that of its forward call.

    The layers of a pipeline stage are numbered from 0, as other stages and other splits number theirs.
    """
    classes = _classes(side)
    renumbered = _renumbered(classes)
    construct, stacks = side.dump.construct, side.dump.stacks
    forward: dict[tuple[str, int | None], Path] = {}
    paths: list[Path] = []
    for key in side.keys:
        place = key.stem, key.call
        path = forward.get(place)
        if path is None:
            module = _module(key.name)
            path = _api_path(key.name, construct, stacks) if module is None else _path(module)
            path = forward[place] = _moved(path, renumbered)
        paths.append(path)
    return Scopes(paths, {_moved(path, renumbered): cls for path, cls in classes.items()})


def _module(name: str) -> ModuleName | None:
    try:
        parsed = parse_entry(name)
    except NameSyntaxError:
        return None
    return parsed if isinstance(parsed, ModuleName) else None


def _path(module: ModuleName) -> Path:
    return tuple(module.path.split(".")) if module.path else ()


def _classes(side: Side) -> dict[Path, str]:
    """Modules that are entries, and those that are only named as a parent."""
    names = {key.name for key in side.keys}
    names.update(parent for name in list(names) if (parent := parent_of(side.dump.construct, name)) is not None)
    modules = (module for module in map(_module, sorted(names)) if module is not None)
    return {_path(module): module.cls for module in modules}


def _api_path(name: str, construct: Mapping[str, Any], stacks: Mapping[str, Sequence[str]]) -> Path:
    """The enclosing module, the framework function in between, and the function itself."""
    parent = parent_of(construct, name)
    module = None if parent is None else _module(parent)
    above = () if module is None else _path(module)
    try:
        api = parse_entry(name).stem.rpartition(".")[2]
    except NameSyntaxError:
        api = name
    function = frame_scope(stacks.get(name, ()))
    return (*above, function, api) if function else (*above, api)


def _renumbered(classes: Mapping[Path, str]) -> dict[Path, str]:
    """Path of a layer of a pipeline stage to its number counted from 0."""
    found: dict[Path, str] = {}
    for stage in (path for path, cls in classes.items() if cls == _STAGED):
        depth = len(stage) + 1
        numbers = {
            int(path[depth])
            for path in classes
            if len(path) > depth and path[:depth] == (*stage, _LAYERS) and path[depth].isdigit()
        }
        for new, old in enumerate(sorted(numbers)):
            if new != old:
                layer = (*stage, _LAYERS, str(old))
                found[layer] = str(new)
    return found


def _moved(path: Path, renumbered: Mapping[Path, str]) -> Path:
    if not renumbered:
        return path
    for depth in range(1, len(path) + 1):
        new = renumbered.get(path[:depth])
        if new is not None:
            return (*path[: depth - 1], new, *path[depth:])
    return path
