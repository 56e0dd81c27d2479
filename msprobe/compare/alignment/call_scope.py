"""Where an entry stands in the model: the path of attributes down to it, with the class of each module on the way.

The framework function that a call was made in: ``__getitem__`` for the additions behind ``x[i]``.

Such calls are the framework's own. Another framework, or version, makes others, so they must not be counted together
with those of the model's code.

Which backward a call belongs to that a hand-written backward or a gradient hook makes.

Nothing records it: such a call looks like a forward call without a module. The module whose backward call ends next
stands in for its parent, so that matching does not mix it up with the calls of another module, nor with those that
activation checkpointing repeats at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.compare.alignment.protocol import Side
from msprobe.compare.records.entries import EntryKey, parent_of
from msprobe.core.naming import ModuleName, NameSyntaxError, parse_entry
from msprobe.core.naming.names import MODULE_PREFIXES

_FRAME = re.compile(r"File (?P<file>.*?), line \d+, in (?P<function>[^,\s]+)")
_FRAMEWORK = re.compile(r"(?:^|[/\\])(?:mindspore|torch|torch_npu|msadapter)[/\\]")
_TOOL = re.compile(r"(?:^|[/\\])msprobe[/\\]")
_WRAPPER = "Template"
_MODEL_CALL = frozenset({"construct", "forward", "backward"})
_NOISE = frozenset({
    "__call__",
    "_run_construct",
    "_run_forward_hook",
    "_backward_hook_construct",
    "_call_custom_bprop",
    "_call_impl",
    "_wrapped_call_impl",
    "_call_end",
    "apply",
    "_fn",
    "wrapper",
    "decorate_context",
})


def frame_scope(stack: Sequence[str]) -> str:
    """The outermost framework function between the call and the code of the user; "" when it was made by the user.

    ``stack`` holds the frames of the call as recorded, innermost first.
    """
    stack = [str(frame) for frame in stack]
    start = next((at + 1 for at, frame in enumerate(stack) if _WRAPPER in frame and _TOOL.search(frame)), 0)
    scope = ""
    for frame in stack[start:]:
        found = _FRAME.search(frame)
        if found is None or _TOOL.search(found["file"]):
            continue
        function = found["function"]
        if not _FRAMEWORK.search(found["file"]) or function in _MODEL_CALL:
            return scope
        if function not in _NOISE:
            scope = function
    return ""


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


IN_BACKWARD = "~"


def with_backward_scope(keys: Sequence[EntryKey]) -> list[EntryKey]:
    """The same keys, where a forward call without parent that lies in the backward pass has the parent ``~module``.

    Without recorded modules the next backward call stands in, for calls marked as recomputed. What follows a module
    call of a later forward pass (its loss) is not in the backward pass.
    """
    result = list(keys)
    first = next((number for number, key in enumerate(keys) if key.phase == "backward"), len(keys))
    again = _forward_again(keys, first)
    module, call = "", ""
    for number in range(len(keys) - 1, first, -1):
        key = keys[number]
        if key.phase == "backward":
            module, call = (key.stem, call) if is_module(key) else (module, key.name)
        elif key.phase != "forward" or key.parent or number in again or (key.recompute and is_module(key)):
            continue
        elif is_module(key):
            module = ""
        else:
            parent = module or (call if key.recompute else "")
            result[number] = key._replace(parent=parent and IN_BACKWARD + parent)
    return result


def _forward_again(keys: Sequence[EntryKey], first: int) -> set[int]:
    """Positions of API calls between a module call after ``first`` that no checkpoint repeats, and the next backward
    call."""
    found: set[int] = set()
    inside = False
    for number in range(first, len(keys)):
        key = keys[number]
        if key.phase == "backward":
            inside = False
        elif key.phase == "forward" and not key.recompute:
            if is_module(key):
                inside = True
            elif inside:
                found.add(number)
    return found


def is_module(key: EntryKey) -> bool:
    """True for calls of modules, False for API calls."""
    return key.name.partition(".")[0] in MODULE_PREFIXES
