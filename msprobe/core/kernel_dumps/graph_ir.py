"""Read the printed graph (IR) of a compiled network line by line: the full name and the source of each kernel.

    %1(x) = PrimFunc_MatMul(%para7_x, %0, ...) ... cnode_primal_attrs: {unique_id: "1732"}
        # Fullname with scope: (Default/fc1-Dense/MatMul-op0)
        # In file train.py:34, 22~30/        h = self.relu(self.fc1(x))/

A backward kernel has the lines of its forward kernel below ``Corresponding forward node candidate``, or only that
kernel's ``forward_unique_id``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import regular

_NODE = re.compile(r"\s*%\d+(?:\([^=]*?\))? = (?:PrimFunc_|Prim_)?([\w:@.]+)|\s*(Return)\(")
_FULL_NAME = re.compile(r"\s*#\s*(?:Fullname with scope|Scope): \((.+)\)\s*$")
_LINE = re.compile(r"\s*#\s*(In file .+?)/?\s*$")
_UNIQUE = re.compile(r'(?<![a-z_])unique_id: "(\d+)"')
_FORWARD = re.compile(r'forward_unique_id: "(\d+)"')
_IR_PARAMETER = re.compile(r"%para(\d+)_([^\s:,()]+)")
_IR_SOURCE = re.compile(r"In file (?P<file>.+?):(?P<line>\d+)(?P<block>~\d+)?, \d+~\d+/(?P<text>.*)")
_SHARED = "/<~~This line of code can be shared"
_DEFINED = re.compile(r"\s*(?:def|class)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class IrNode:
    """One kernel. ``lines`` are the IR's own, outermost first, each ``In file PATH:LINE, FROM~TO/SOURCE``."""

    name: str
    op: str
    lines: tuple[str, ...]
    unique: str = ""
    forward: str = ""


@dataclass(frozen=True, slots=True)
class Ir:
    """One graph: its kernels in the order of the text, and the positions of its inputs by name."""

    nodes: tuple[IrNode, ...]
    parameters: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _OpenNode:
    """A node whose lines are still being read."""

    op: str
    unique: str = ""
    forward: str = ""
    name: str = ""
    lines: list[str] = field(default_factory=list)

    def take_ids(self, line: str) -> None:
        unique, forward = _UNIQUE.search(line), _FORWARD.search(line)
        self.unique = unique[1] if unique else self.unique
        self.forward = forward[1] if forward else self.forward


def read_ir(path: Path) -> Ir:
    """Return the graph printed in ``path``.

    Raises:
        ReadError: the file cannot be read, or has no kernel with a name in it.
    """
    try:
        with regular(path).open(encoding="utf-8", errors="replace") as text:
            (ir,) = with_forward_lines([parse_ir(text)])
    except OSError as error:
        raise ReadError(f"{path}: cannot be read ({error.strerror}); give an .ir file, or a folder of them") from error
    if not ir.nodes:
        raise ReadError(f'{path}: no graph in it (no line "# Fullname with scope: (...)"); give an .ir file')
    return ir


def parse_ir(text: Iterable[str]) -> Ir:
    """Return the graph in these lines; nodes without a name are left out."""
    nodes: list[_OpenNode] = []
    parameters: dict[str, int] = {}
    node: _OpenNode | None = None
    for line in text:
        if started := _NODE.match(line):
            node = _OpenNode(started[1] or started[2])
            node.take_ids(line)
            nodes.append(node)
        elif node is not None and (named := _FULL_NAME.match(line)):
            node.name = node.name or named[1]
        elif node is not None and (source := _LINE.match(line)):
            node.lines.append(source[1])
        elif line.startswith("}"):
            node = None
        elif node is not None and "unique_id" in line:
            node.take_ids(line)  # a constant among the arguments is printed over several lines
        for position, name in _IR_PARAMETER.findall(line) if "%para" in line else ():
            parameters.setdefault(name, int(position))
    return Ir(tuple(_named_nodes(nodes)), parameters)


def _named_nodes(nodes: list[_OpenNode]) -> Iterable[IrNode]:
    for node in nodes:
        if node.name:
            yield IrNode(node.name, node.op, tuple(node.lines), node.unique, node.forward)


def with_forward_lines(graphs: Iterable[Ir]) -> list[Ir]:
    """Return the graphs with lines for all backward kernels.

    A backward kernel without lines gets those of its forward kernel, which any of the graphs may hold.
    """
    originals = list(graphs)
    lines = {node.unique: node.lines for ir in originals for node in ir.nodes if node.unique and node.lines}

    def with_lines(node: IrNode) -> IrNode:
        return node if node.lines else replace(node, lines=lines.get(node.forward, ()))

    return [replace(ir, nodes=tuple(map(with_lines, ir.nodes))) for ir in originals]


def frames(lines: Iterable[str]) -> list[str]:
    """Return the lines of a kernel as frames of stack.json, innermost first.

    A frame is ``File PATH, line N, in FUNC, \\n SOURCE``.
    """
    by_line: dict[tuple[str, str], str] = {}
    function = "<graph>"
    for line in lines:
        match = _IR_SOURCE.match(line)
        if match is None:
            continue
        source = match["text"].split(_SHARED)[0].strip()
        defined = _DEFINED.match(source)
        function = defined[1] if defined else function
        if not match["block"]:
            where = match["file"], match["line"]
            by_line[where] = f"File {where[0]}, line {where[1]}, in {function}, \n {source}"
    return list(by_line.values())[::-1]
