"""``torch.compile(model, backend="msprobe")``: runs the graphs of Dynamo call by call, so that each call is recorded.

While a debugger collects, every node of a graph calls what stands in its place in torch at that moment: the wrapper
that records it, as in an eager run. Names, modules, gradients and lines are those of the eager program, so that
``msprobe compare`` lines the two up; what differs was made by Dynamo. ``msprobe_aten`` runs the graphs that AOTAutograd
makes of them, forward and backward, operator by operator: what differs there was made by a decomposition or by the
partition of the graph.

The call stack of a record is that of the program (``program_frames``).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from msprobe.adapters.pytorch.compile.compiled_calls import CALLS
from msprobe.adapters.pytorch.compile.program_frames import caller_of, frames_of
from msprobe.adapters.pytorch.recorded_names import OWNERS, read_names
from msprobe.core.interruption import import_whole


def msprobe(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """Compile nothing: return what runs the graph of Dynamo call by call."""
    return RecordedGraph(graph).run_graph


def msprobe_aten(
    graph: torch.fx.GraphModule, inputs: list[Any], decompositions: Any = None, **options: Any
) -> Callable[..., Any]:
    """Return what runs the forward and backward graphs of AOTAutograd operator by operator.

    Args:
        graph, inputs: as torch gives them.
        decompositions: functions that operators are replaced by, by operator; ``"inductor"`` are those of inductor.
        options: further options of ``torch.compile(options=...)``, without effect.
    """
    if decompositions == "inductor":
        decompositions = import_whole("torch._inductor.decomposition").select_decomp_table()

    def compiler(part: torch.fx.GraphModule, given: list[Any]) -> Any:
        return make_boxed_func(RecordedGraph(part).run_graph)

    run: Callable[..., Any] = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, decompositions=decompositions)(
        graph, inputs
    )
    return run


class RecordedGraph(torch.fx.Interpreter):
    """Runs one graph. Where nobody collects, the graph runs as torch has written it."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self._callers = {node: caller_of(frames_of(node.stack_trace)) for node in graph.graph.nodes}
        self._node: torch.fx.Node | None = None

    def run_graph(self, *args: Any) -> Any:
        """Return the results of the graph."""
        if CALLS.target is None:
            return self.module.forward(*args)
        return RecordedGraph.run(self, *args)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return the value of a node."""
        self._node = n
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a function returns; the wrapper of it is called where one stands in its place."""
        return self._call(present_form(target), args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a method returns."""
        return self._call(getattr(args[0], target), args[1:], kwargs)

    def _call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._node is not None
        return self._callers[self._node](function, args, kwargs)


def present_form(function: Any) -> Any:
    """Return what stands in the place of a function of torch now: its wrapper while a debugger collects."""
    place = _places().get(id(function))
    return function if place is None else getattr(place[0], place[1], function)


@lru_cache(maxsize=1)
def _places() -> dict[int, tuple[Any, str]]:
    """Return owner and attribute of each function that can be recorded, by the identity of the original."""
    table = read_names()
    found: dict[int, tuple[Any, str]] = {}
    for names, (prefix, owner) in itertools.product((table["apis"], table["extra"]), OWNERS.items()):
        for name in names.get(prefix, ()):
            holder, attribute = _holder(owner, name)
            original = inspect.unwrap(getattr(holder, attribute, None) or _nothing)
            found.setdefault(id(original), (holder, attribute))
    found.pop(id(_nothing), None)
    return found


def _holder(owner: Any, name: str) -> tuple[Any, str]:
    *path, attribute = name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    return owner, attribute


def _nothing() -> None:
    """Stand for a function that this version of torch does not have."""
