"""Faults planted into functions of megatron-core: a line of their source is another one, in the running process.

The function stays the same object, so everything that has imported it runs the edited line, and stacks show it with
the path and the number that it has in the package.
"""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = "megatron.core"


@dataclass(frozen=True)
class Fault:
    """An edit of a function of megatron-core.

    Args:
        mode: the name of the layout.
        name: what it is about.
        function: module and name of the function, as ``tensor_parallel.layers:RowParallelLinear.forward``.
        old: the text in one line that is replaced; it occurs once in the function.
        new: what it is replaced with.
        module: parts of the path of which the named module has one, separated by bars.
        functions: names of functions, separated by bars, a line of which is right as well.
        ranks: the ranks that run the edited function; all where it is empty.
    """

    mode: str
    name: str
    function: str
    old: str
    new: str
    module: str = ""
    functions: str = ""
    ranks: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.mode}-{self.name}"

    @property
    def places(self) -> set[str]:
        """Return the names of the functions that are right."""
        return {self.function.rpartition(".")[2].rpartition(":")[2], *filter(None, self.functions.split("|"))}


@contextmanager
def edited(fault: Fault | None, rank: int) -> Iterator[None]:
    """Run the block with a fault in megatron-core, where this rank has it."""
    if fault is None or (fault.ranks and rank not in fault.ranks):
        yield
        return
    module_name, _, path = fault.function.partition(":")
    module = importlib.import_module(f"{PACKAGE}.{module_name}")
    function = _function(module, path)
    before = function.__code__
    function.__code__ = _edited_code(fault, Path(str(module.__file__)), before)
    linecache.checkcache()
    try:
        yield
    finally:
        function.__code__ = before


def _function(module: Any, path: str) -> Any:
    found = module
    for name in path.split("."):
        found = found.__dict__[name] if isinstance(found, type) else getattr(found, name)
    found = getattr(found, "__func__", found)
    return getattr(found, "__wrapped__", found)


def _edited_code(fault: Fault, file: Path, before: CodeType) -> CodeType:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    first = before.co_firstlineno - 1
    last = max(line for _, _, line in before.co_lines() if line is not None)
    found = [number for number in range(first, last) if fault.old in lines[number]]
    assert len(found) == 1, f"{fault.id}: {fault.old!r} is in {len(found)} lines of {fault.function}"
    lines[found[0]] = lines[found[0]].replace(fault.old, fault.new)
    code = compile("".join(lines), str(file), "exec")
    return next(each for each in _codes(code) if each.co_firstlineno == before.co_firstlineno and _same(each, before))


def _same(one: CodeType, other: CodeType) -> bool:
    return one.co_qualname == other.co_qualname if hasattr(one, "co_qualname") else one.co_name == other.co_name


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
