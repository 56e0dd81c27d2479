"""Faults planted into functions of megatron-core: a line of their source is another one, in the running process.

The function stays the same object, so everything that has imported it runs the edited line, and stacks show it with
the path and the number that it has in the package.
"""

from __future__ import annotations

import ast
import importlib
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

    def is_place(self, path: str, line: int, function: str) -> bool:
        """Return whether a line of a file, in a function of this name, is a right place to name."""
        if function and function in self.functions.split("|"):
            return True
        module, _, name = self.function.partition(":")
        own = Path(path)
        if not own.as_posix().endswith(f"{PACKAGE}.{module}".replace(".", "/") + ".py"):
            return False
        first, last = _lines(own, name)
        return first <= line <= last


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


def _lines(file: Path, name: str) -> tuple[int, int]:
    """Return the first and the last line of a function."""
    found: ast.AST = ast.parse(file.read_text(encoding="utf-8"))
    for part in name.split("."):
        nodes = (each for each in ast.walk(found) if isinstance(each, (ast.FunctionDef, ast.ClassDef)))
        found = next(each for each in nodes if each.name == part)
    assert isinstance(found, ast.FunctionDef)
    return found.lineno, found.end_lineno or found.lineno


def _edited_code(fault: Fault, file: Path, before: CodeType) -> CodeType:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    first = before.co_firstlineno - 1
    last = max(line for code in (before, *_codes(before)) for _, _, line in code.co_lines() if line is not None)
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
