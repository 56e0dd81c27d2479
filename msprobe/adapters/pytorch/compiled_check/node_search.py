"""From a wrong compiled module to the first wrong node of its graphs.

Each graph of the call is compiled with the result of every operator as a result of the graph, and the first that
differs from eager mode is compiled alone, on the values of eager mode. Where no operator is wrong alone, but the graph
is, torch's minifier looks for the smallest graph that is wrong: the fault lies in how operators are joined.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from msprobe.adapters.pytorch.compiled_check.called_graphs import CalledGraph, called_graphs
from msprobe.adapters.pytorch.compiled_check.eager_run import EagerCall
from msprobe.adapters.pytorch.compiled_check.smallest_graph import smallest_graph
from msprobe.adapters.pytorch.compiled_check.tensor_diff import TensorDiff, compare_tensors
from msprobe.adapters.pytorch.compiled_check.wrong_node import WrongNode, frames_of_node, module_of
from msprobe.adapters.pytorch.replay.program_state import ProgramState
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger

_MOST_ALONE = 8


class NodeSearch:
    """Looks for the first wrong node of a call.

    Args:
        backend: the back end with which the module was compiled.
    """

    def __init__(self, backend: Callable[..., Any]) -> None:
        self._backend = backend

    def search(self, name: str, call: EagerCall, given: Sequence[Any]) -> WrongNode | None:
        """Return the first wrong node of a call of a module; None where no graph of it is wrong alone.

        Args:
            name: the path of the module.
            call: the call.
            given: the gradients of its results.
        """
        now = ProgramState.now()
        try:
            graphs = called_graphs(call, given)
            return next(filter(None, (self._in_graph(name, one) for one in graphs)), None)
        finally:
            now.restore()

    def _in_graph(self, name: str, called: CalledGraph) -> WrongNode | None:
        values = called.values()
        for node in self._suspects(called)[:_MOST_ALONE]:
            alone = called.alone(node, values)
            if (difference := self.difference(alone)) is not None:
                return self._found(name, alone, node, str(node.target), difference)
        if self.difference(called) is None:
            return None
        small = smallest_graph(called, lambda one: self.difference(one) is not None)
        last = small.operators[-1]
        difference = self.difference(small)
        if difference is None:  # it is wrong now and then
            return None
        together = " + ".join(dict.fromkeys(str(one.target) for one in small.operators if _computes(one)))
        return self._found(name, small, last, together, difference)

    def _found(
        self, name: str, called: CalledGraph, node: torch.fx.Node, target: str, difference: TensorDiff
    ) -> WrongNode:
        module = ".".join(part for part in ("" if name == "model" else name, module_of(node)) if part)
        stack = tuple(frames_of_node(node))
        return WrongNode(target, called.direction, module, stack, called, difference, self._backend)

    def _suspects(self, called: CalledGraph) -> list[torch.fx.Node]:
        """Return the operators whose results differ where the whole graph is compiled, in their order."""
        every, nodes = called.with_all_results()
        found = (
            _producer(node) for node, difference in zip(nodes, self._differences(every), strict=False) if difference
        )
        return list(dict.fromkeys(found))

    def difference(self, called: CalledGraph) -> TensorDiff | None:
        """Return the first result of a compiled graph that differs from that of eager mode; None where none does."""
        return next(filter(None, self._differences(called)), None)

    def _differences(self, called: CalledGraph) -> Iterable[TensorDiff | None]:
        """Yield for each result how it differs; nothing where the graph cannot be compiled by itself."""
        try:
            compiled = called.results_of(torch.compile(called.graph, backend=self._backend, dynamic=False))
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises
            let_through(error)
            logger.debug("compiled check: a part of the graph does not compile: %s", error_text(error))
            return
        exact = called.exact_results()
        for number, (one, other) in enumerate(zip(compiled, called.results(), strict=False)):
            found = None
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                found = compare_tensors(one, other, exact[number] if exact else None)
            yield found if found is not None and not found.allclose else None


def _producer(node: torch.fx.Node) -> torch.fx.Node:
    """Return the operator of which a node is a part of the result."""
    while node.target is operator.getitem:
        (node, *_) = node.all_input_nodes
    return node


def _computes(node: torch.fx.Node) -> bool:
    return node.target is not operator.getitem
