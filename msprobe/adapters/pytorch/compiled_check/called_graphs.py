"""The graphs of operators that a compiler gets for one call of a module, with the values that they were called with.

The call is made once more; Dynamo and AOTAutograd trace it, and its graphs are run operator by operator as they are,
without decompositions, on the inputs and output gradients of the compiled call. So each node is an operator of ATen
that the eager module calls too, with the line of the program that Dynamo has seen.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.debug_utils import cast_to_fp64

from msprobe.adapters.pytorch.compiled_check.eager_run import EagerCall, gradients, tensors_of
from msprobe.adapters.pytorch.replay.program_state import ProgramState
from msprobe.core.interruption import let_through

_COMPILATIONS = 1_000  # of one code object; the compilations of the program count too


@dataclass(frozen=True, eq=False, slots=True)
class CalledGraph:
    """One graph and the values that it was called with.

    Attributes:
        graph: the graph, of operators of ATen.
        inputs: copies of its inputs.
        direction: ``forward`` or ``backward``.
        before: the state of the random generators before the call.
    """

    graph: torch.fx.GraphModule
    inputs: Sequence[Any]
    direction: str
    before: ProgramState

    @property
    def operators(self) -> list[torch.fx.Node]:
        """Return the nodes that compute, in their order."""
        return [one for one in self.graph.graph.nodes if one.op == "call_function"]

    @property
    def draws(self) -> bool:
        """Return whether an operator draws random numbers."""
        seeded = torch.Tag.nondeterministic_seeded
        return any(seeded in getattr(one.target, "tags", ()) for one in self.operators)

    def results(self) -> list[Any]:
        """Return the results as operators of eager mode compute them."""
        return self.results_of(self.graph)

    def results_of(self, form: Callable[..., Any]) -> list[Any]:
        """Return the results of another form of the graph, on copies of the inputs."""
        self.before.restore()
        with torch.no_grad():
            return _flat(form(*map(copied, self.inputs)))

    def exact_results(self) -> list[Any]:
        """Return the results in float64; nothing where an operator insists on its types, or draws random numbers."""
        if self.draws:
            return []
        try:
            wide, inputs = cast_to_fp64(copy.deepcopy(self.graph), [copied(one) for one in self.inputs])
            with torch.no_grad():
                return _flat(wide(*inputs))
        except Exception as error:  # noqa: BLE001 - whatever an operator raises for float64
            let_through(error)
            return []

    def with_all_results(self) -> tuple[CalledGraph, list[torch.fx.Node]]:
        """Return the graph with the result of every operator as its result, and the operators in the order of these."""
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, Any] = {}
        for node in self.graph.graph.nodes:
            if node.op != "output":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        shown = [one for one in self.operators if isinstance(one.meta.get("val"), torch.Tensor)]
        graph.output(tuple(copies[one] for one in shown))
        return self._with(graph, self.inputs), shown

    def alone(self, node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> CalledGraph:
        """Return a graph of one operator.

        Args:
            node: the operator.
            values: what each node before it computes in eager mode.
        """
        graph = torch.fx.Graph()
        places: dict[torch.fx.Node, torch.fx.Node] = {}
        for given in node.all_input_nodes:
            places[given] = graph.placeholder(given.name)
            places[given].meta = dict(given.meta)
        made = graph.node_copy(node, places.__getitem__)
        parts = [one for one in node.users if one.target is operator.getitem]
        shown = [graph.node_copy(part, lambda _: made) for part in parts] or [made]
        graph.output(tuple(shown))
        return self._with(graph, [values[one] for one in places])

    def values(self) -> dict[torch.fx.Node, Any]:
        """Return what each node computes in eager mode."""
        self.before.restore()
        run = _KeepingRun(self.graph, garbage_collect_values=False)
        with torch.no_grad():
            run.run(*map(copied, self.inputs))
        return run.kept

    def _with(self, graph: torch.fx.Graph, inputs: Sequence[Any]) -> CalledGraph:
        graph.lint()
        module = torch.fx.GraphModule(self.graph, graph)
        return CalledGraph(module, inputs, self.direction, self.before)


class _KeepingRun(torch.fx.Interpreter):
    """Runs a graph and keeps copies of all values."""

    def __init__(self, graph: torch.fx.GraphModule, **options: Any) -> None:
        super().__init__(graph, **options)
        self.kept: dict[torch.fx.Node, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return the value of a node."""
        value = super().run_node(n)
        self.kept[n] = copied(value)
        return value


def called_graphs(call: EagerCall, given: Sequence[Any]) -> list[CalledGraph]:
    """Make a call once more and return its graphs in the order in which they run.

    Args:
        call: the call of a module.
        given: the gradients of its results that need one; none where there was no backward pass.

    Raises:
        Exception: whatever the module or its trace raises.
    """
    found: list[CalledGraph] = []

    def keeper(direction: str) -> Any:
        def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
            def run(*values: Any) -> Any:
                inputs = [copied(one) for one in values]
                found.append(CalledGraph(graph, inputs, direction, ProgramState.now()))
                return graph.forward(*values)

            return make_boxed_func(run)

        return compiler

    backend = aot_autograd(fw_compiler=keeper("forward"), bw_compiler=keeper("backward"))
    with torch._dynamo.config.patch(
        cache_size_limit=_COMPILATIONS,
        accumulated_cache_size_limit=_COMPILATIONS,  # the names that all versions know
    ):
        results = call.run_compiled(torch.compile(call.module, backend=backend, dynamic=False))
    outputs = [one for one in tensors_of(results) if one.requires_grad]
    if outputs and any(one is not None for one in given):
        gradients(call, outputs, given)
    return found


def copied(value: Any) -> Any:
    """Return a copy of a tensor, or of the tensors in a value; other values as they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return type(value)(map(copied, value)) if type(value) in (list, tuple) else value


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]
