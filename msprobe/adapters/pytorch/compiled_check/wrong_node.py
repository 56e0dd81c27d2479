"""The first wrong node of a compiled module's graphs, with its module and its line of the program."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from linecache import getline
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.program_frames import frames_of
from msprobe.adapters.pytorch.compiled_check.called_graphs import CalledGraph
from msprobe.adapters.pytorch.compiled_check.tensor_diff import TensorDiff
from msprobe.compare.records.source_lines import source_line

_OF_MODULE = (
    (re.compile(r"^L\['\w+'\]"), ""),
    (re.compile(r"\._modules\['([^']+)'\]"), r".\1"),
    (re.compile(r"\[['\"]?(\w+)['\"]?\]"), r".\1"),
    (re.compile(r"\._msprobe_cast"), ""),
)
"""How Dynamo writes the path of a module, and what stands there in the names of the model."""


@dataclass(frozen=True, eq=False, slots=True)
class WrongNode:
    """The first node of a module's graphs that is wrong when it is compiled.

    Attributes:
        operator: what the node calls, ``aten.gelu.default``; where only several together are wrong, all of them.
        direction: ``forward`` or ``backward``.
        module: the path of the innermost module of the node.
        stack: the frames of the program that made the call, innermost first; of a node of the backward pass those of
            the forward call.
        called: the smallest graph that is wrong, with its inputs.
        difference: the first of its results that differs.
        backend: the back end that compiled it.
    """

    operator: str
    direction: str
    module: str
    stack: tuple[str, ...]
    called: CalledGraph
    difference: TensorDiff
    backend: Callable[..., Any]

    @property
    def source(self) -> str:
        """Return the line of the program: ``PATH:LINE in FUNCTION: CODE``."""
        return source_line(self.stack)

    @property
    def words(self) -> tuple[str, str, str]:
        """Return the node, its line, and what is wrong."""
        where = f" in {self.module}" if self.module else ""
        reason = f"{self.difference.note}; largest difference {self.difference.max_abs:.4g}"
        return f"{self.operator} ({self.direction}){where}", self.source, reason


def module_of(node: torch.fx.Node) -> str:
    """Return the path of the innermost module of a node inside the compiled module; "" for that one itself."""
    stacks = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = str(next(reversed(stacks.values()), ("",))[0])
    for pattern, text in _OF_MODULE:
        path = pattern.sub(text, path)
    return path.strip(".")


def frames_of_node(node: torch.fx.Node) -> list[str]:
    """Return the frames of the program that made the call of a node, innermost first, as call stacks have them."""
    frames = reversed(frames_of(node.meta.get("stack_trace")))
    return [f"File {path}, line {line}, in {name}, {getline(path, line).strip()}" for path, line, name in frames]
