"""Where an entry stands in the model.

The first part gives the path of an entry: the attributes down to its module, the framework function that made the call
in between, and the function itself. Calls that the framework makes on its own (the additions behind ``x[i]``) must not
be counted together with those of the model's code, because another framework or version makes others.

The second part gives a parent to forward calls in the backward pass, which a hand-written backward or a gradient hook
makes. Nothing records where they belong: they look like forward calls without a module. The module whose backward call
ends next stands in for their parent. So matching confuses them neither with the calls of another module, nor with
calls that activation checkpointing repeats at the same time.

The third part leaves out the path of a wrapper around the model that only one side has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from msprobe.compare.alignment.cross_framework import FRAMEWORKS
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.records.entries import EntryKey, is_module, parent_of
from msprobe.core.naming import ModuleName, NameSyntaxError, parse_entry
from msprobe.core.naming.names import is_module_name

_FRAME = re.compile(r"File (?P<file>.*?), line \d+, in (?P<function>[^,\s]+)")
_PACKAGES = "|".join(package for names in FRAMEWORKS.values() for package in names.packages)
_FRAMEWORK = re.compile(rf"(?:^|[/\\])(?:{_PACKAGES})[/\\]")
_TOOL = re.compile(r"(?:^|[/\\])msprobe[/\\]")
_WRAPPER = "Template"
_MODEL_CALL = frozenset({"construct", "forward", "backward"})
_DISPATCH = frozenset({
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
"""Framework functions that every call passes; they say nothing about where it was made."""


def frame_scope(stack: Sequence[str]) -> str:
    """Return the outermost framework function between a call and the user's code, such as ``__getitem__`` for the
    additions behind ``x[i]``; "" when the user's code made the call.

    Args:
        stack: the frames of the call as recorded, innermost first.
    """
    stack = [str(frame) for frame in stack]
    start = next((index + 1 for index, frame in enumerate(stack) if _WRAPPER in frame and _TOOL.search(frame)), 0)
    scope = ""
    for frame in stack[start:]:
        match = _FRAME.search(frame)
        if match is None or _TOOL.search(match["file"]):
            continue
        function = match["function"]
        if not _FRAMEWORK.search(match["file"]) or function in _MODEL_CALL:
            return scope
        if function not in _DISPATCH:
            scope = function
    return ""


Path = tuple[str, ...]
_STAGED, _LAYERS = "ParallelTransformer", "layers"


class Scopes(NamedTuple):
    """The paths of all entries of one side.

    Args:
        paths: one path per entry.
        classes: the class of every module, by its path.
    """

    paths: list[Path]
    classes: Mapping[Path, str]


def scopes(side: Side) -> Scopes:
    """Return the paths of all entries. A backward entry has the path of its forward call.

    The layers of a pipeline stage are numbered from 0, because other stages and other splits number theirs otherwise.
    """
    classes = _classes(side)
    renumbered = _renumbered_layers(classes)
    construct, stacks = side.dump.construct, side.dump.stacks
    path_of_call: dict[tuple[str, int | None], Path] = {}
    paths: list[Path] = []
    for key in side.keys:
        call = key.stem, key.call
        path = path_of_call.get(call)
        if path is None:
            module = _module_name(key.name)
            path = _function_path(key.name, construct, stacks) if module is None else _module_path(module)
            path = path_of_call[call] = _with_stage_number(path, renumbered)
        paths.append(path)
    return Scopes(paths, {_with_stage_number(path, renumbered): cls for path, cls in classes.items()})


def _module_name(name: str) -> ModuleName | None:
    """Return the parsed name of a module entry, None for anything else."""
    try:
        parsed = parse_entry(name)
    except NameSyntaxError:
        return None
    return parsed if isinstance(parsed, ModuleName) else None


def _module_path(module: ModuleName) -> Path:
    return tuple(module.path.split(".")) if module.path else ()


def _classes(side: Side) -> dict[Path, str]:
    """Return the classes of modules that are entries, and of those that are only named as a parent."""
    names = {key.name for key in side.keys}
    names.update(parent for name in list(names) if (parent := parent_of(side.dump.construct, name)) is not None)
    modules = (module for module in map(_module_name, sorted(names)) if module is not None)
    return {_module_path(module): module.cls for module in modules}


def _function_path(name: str, construct: Mapping[str, Any], stacks: Mapping[str, Sequence[str]]) -> Path:
    """Return the enclosing module, the framework function in between where there is one, and the function itself."""
    parent = parent_of(construct, name)
    module = None if parent is None else _module_name(parent)
    enclosing = () if module is None else _module_path(module)
    try:
        api = parse_entry(name).stem.rpartition(".")[2]
    except NameSyntaxError:
        api = name
    function = frame_scope(stacks.get(name, ()))
    return (*enclosing, function, api) if function else (*enclosing, api)


def _renumbered_layers(classes: Mapping[Path, str]) -> dict[Path, str]:
    """Return the number, counted from 0 in each pipeline stage, of every layer that has another number; by path."""
    renumbered: dict[Path, str] = {}
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
                renumbered[layer] = str(new)
    return renumbered


def _with_stage_number(path: Path, renumbered: Mapping[Path, str]) -> Path:
    if not renumbered:
        return path
    for depth in range(1, len(path) + 1):
        number = renumbered.get(path[:depth])
        if number is not None:
            return (*path[: depth - 1], number, *path[depth:])
    return path


IN_BACKWARD = "~"


def with_backward_scope(keys: Sequence[EntryKey]) -> list[EntryKey]:
    """Return the keys with the parent ``~module`` for forward calls that have no parent and lie in the backward pass.

    Without recorded modules the next backward call stands in, for calls marked as recomputed. What follows a module
    call of a later forward pass (its loss) is not in the backward pass.
    """
    result = list(keys)
    first = next((number for number, key in enumerate(keys) if key.phase == "backward"), len(keys))
    later_forward = _later_forward_calls(keys, first)
    module, call = "", ""
    for number in range(len(keys) - 1, first, -1):
        key = keys[number]
        if key.phase == "backward":
            module, call = (key.stem, call) if is_module(key) else (module, key.name)
        elif key.phase != "forward" or key.parent or number in later_forward or (key.recompute and is_module(key)):
            continue
        elif is_module(key):
            module = ""
        else:
            parent = module or (call if key.recompute else "")
            result[number] = key._replace(parent=parent and IN_BACKWARD + parent)
    return result


def _later_forward_calls(keys: Sequence[EntryKey], first: int) -> set[int]:
    """Return the positions of function calls of a later forward pass: those between a module call after ``first`` that
    no checkpoint repeats, and the next backward call."""
    positions: set[int] = set()
    after_module = False
    for number in range(first, len(keys)):
        key = keys[number]
        if key.phase == "backward":
            after_module = False
        elif key.phase == "forward" and not key.recompute:
            if is_module(key):
                after_module = True
            elif after_module:
                positions.add(number)
    return positions


_DEEPEST_WRAPPER = 2
"""Attributes between a wrapper and the model: ``module``, or ``module._orig_mod`` where it is compiled as well."""


def without_wrapper(target: Sequence[EntryKey], golden: Sequence[EntryKey]) -> tuple[list[EntryKey], list[EntryKey]]:
    """Return the keys of both sides. Where the model of one side lies in a wrapper (a class for parallel training, or
    of the user), its calls are what they are without the path of the wrapper."""
    sides = list(target), list(golden)
    stems = [frozenset(key.stem for key in side if is_module(key)) for side in sides]
    if not all(stems) or 2 * len(stems[0] & stems[1]) >= min(map(len, stems)):
        return sides
    for keys, own, other in ((sides[0], stems[0], stems[1]), (sides[1], stems[1], stems[0])):
        wrapper = _wrapper(own, other)
        if wrapper:
            keys[:] = [_unwrapped(key, wrapper, other) for key in keys]
            break
    return sides


def _wrapper(stems: Set[str], others: Set[str]) -> str:
    """Return the path before the modules of one side without which most modules of the other side are found; ""
    where there is none."""
    for depth in range(1, _DEEPEST_WRAPPER + 1):
        paths = Counter(".".join(stem.split(".")[1 : depth + 1]) for stem in stems)
        for path, _ in paths.most_common(1):
            found = sum(_without(stem, path) in others for stem in stems if _without(stem, path) != stem)
            if 2 * found >= len(others):
                return path
    return ""


def _without(stem: str, wrapper: str) -> str:
    kind, _, path = stem.partition(".")
    return f"{kind}.{path.removeprefix(f'{wrapper}.')}"


def _unwrapped(key: EntryKey, wrapper: str, others: Set[str]) -> EntryKey:
    """Return a key as it is without the wrapper. The wrapper itself encloses nothing, nor does the model in it where
    the other side does not record the call of the whole model."""
    parent = _without(key.parent, wrapper) if key.parent else ""
    is_whole = parent.count(".") == 1 and parent not in others
    stem = _without(key.stem, wrapper) if is_module(key) else key.stem
    return key._replace(stem=stem, parent="" if is_whole and is_module_name(parent) else parent)
