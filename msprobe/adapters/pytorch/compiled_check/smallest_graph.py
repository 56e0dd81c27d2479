"""The smallest graph that is wrong: torch's own minifier, judged by msprobe."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch import fx_minifier

from msprobe.adapters.pytorch.compiled_check.called_graphs import CalledGraph
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger

_SECONDS = 300.0
_MOST_GRAPHS = 100


def smallest_graph(called: CalledGraph, fails: Callable[[CalledGraph], bool], seconds: float = _SECONDS) -> CalledGraph:
    """Return the smallest part of a graph that is still wrong; the graph itself where the minifier finds none.

    Args:
        called: a graph that is wrong.
        fails: whether a graph is wrong; each question compiles one.
        seconds: after this time the smallest graph so far is the answer.
    """
    smallest = called
    end, left = time.monotonic() + seconds, _MOST_GRAPHS

    def module_fails(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
        nonlocal smallest, left
        left -= 1
        if left < 0 or time.monotonic() > end:
            return False
        part = CalledGraph(graph, list(inputs), called.direction, called.before)
        if not part.operators or not fails(part):
            return False
        if len(part.operators) <= len(smallest.operators):
            smallest = CalledGraph(_copy(graph), list(inputs), called.direction, called.before)
        return True

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), contextlib.redirect_stdout(nowhere):
        try:
            fx_minifier.minifier(_copy(called.graph), list(called.inputs), module_fails, lambda *_: None)
        except Exception as error:  # noqa: BLE001 - it raises where it can take nothing away
            let_through(error)
            logger.debug("compiled check: the minifier ended: %s", error_text(error))
    return smallest


def _copy(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph.graph, {}))
    return torch.fx.GraphModule(graph, copy)
