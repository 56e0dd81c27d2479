"""Back ends of ``torch.compile`` that compute one operator wrongly, forward or backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

Change = Callable[[Any], Any]
aten = torch.ops.aten


def changed(name: str, change: Change, where: str) -> Any:
    """Return a back end in whose graphs the results of an operator are changed.

    Args:
        name: the operator, ``relu.default``.
        change: makes the wrong result of the right one.
        where: ``forward``, ``backward`` or ``both``; a graph that is compiled without autograd is a forward one.
    """

    def compiler(part: str) -> Any:
        def compile_part(graph: torch.fx.GraphModule, inputs: Any) -> Any:
            return make_boxed_func(Changed(graph, name, change).run if where in (part, "both") else graph.forward)

        return compile_part

    return aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))


class Changed(torch.fx.Interpreter):
    """Runs a graph, and changes the results of one operator."""

    def __init__(self, graph: torch.fx.GraphModule, name: str, change: Change) -> None:
        super().__init__(graph)
        self._name = name
        self._change = change

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        result = super().call_function(target, args, kwargs)
        return self._change(result) if str(target) == f"aten.{self._name}" else result


def joined_wrongly(first: str, second: str) -> Any:
    """Return a back end in whose graphs an operator is wrong where it is given the result of another one."""

    def compile_part(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return make_boxed_func(JoinedWrongly(graph, f"aten.{first}", f"aten.{second}").run)

    return aot_autograd(fw_compiler=compile_part, bw_compiler=compile_part)


class JoinedWrongly(torch.fx.Interpreter):
    """Runs a graph, and makes results of the second operator wrong that come from the first."""

    def __init__(self, graph: torch.fx.GraphModule, first: str, second: str) -> None:
        super().__init__(graph)
        self._names = first, second

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        given = n.args[0] if n.args else None
        names = (str(given.target) if isinstance(given, torch.fx.Node) else "", str(n.target))
        return result * 1.01 if names == self._names else result
