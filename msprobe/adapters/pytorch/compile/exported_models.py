"""Exported programs among the models given to ``start``: recorded under the names of the model they were made of.

``ExportedProgram.module()`` is a ``GraphModule`` of operators, whose modules hold parameters and are never called.
While collecting, its ``forward`` is one that runs the graph call by call (``exported_run``). The ``forward`` belongs to
a class that torch makes for each such module alone, so that nothing else sees it, copies of the module neither. Code
that a compiler reads is the original one.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from msprobe.adapters.pytorch.compile.exported_graph import read_graph
from msprobe.adapters.pytorch.compile.exported_names import Api, ModuleLevel, model_class
from msprobe.adapters.pytorch.compile.exported_run import Calls, ExportedPart, ExportedRun, Invocation
from msprobe.adapters.pytorch.compile.recompilation import is_traced, skip_in_dynamo
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import wrap_module_call
from msprobe.core.dump.record.module_names import ModuleNames, NamedModule
from msprobe.core.errors import error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger

ObserveFunction = Callable[[Api, Callable[..., Any]], Callable[..., Any]]
"""Returns what to call in place of a function, whose calls are recorded under a name."""


def exported_class(module: nn.Module) -> str | None:
    """Return the class of the model that a program was exported from; None for another module.

    Programs are what ``ExportedProgram.module()`` returns, and transformations of it: graphs of operators.
    """
    if not isinstance(module, fx.GraphModule):
        return None
    if not any(isinstance(node.target, torch._ops.OpOverload) for node in module.graph.nodes):
        return None
    return model_class(module.graph) or "GraphModule"


class ExportedModel:
    """One exported program.

    Attributes:
        parts: what stands for each call of a module in it, with path and class of the module, in the order of calls.
    """

    def __init__(self, module: fx.GraphModule, calls: Calls) -> None:
        whole = read_graph(module)
        run = ExportedRun(module, whole, calls)
        self.parts: list[tuple[ModuleLevel, ExportedPart]] = [(step.level, part) for step, part in run.parts.items()]
        self._code = module._code
        self._class = type(module)
        self._forward = self._observed(module, run)

    def is_of(self, module: fx.GraphModule) -> bool:
        """Return whether the module still has the graph that was read."""
        return module._code is self._code

    def plan(self, patches: Patches) -> None:
        """Add the ``forward`` that runs the graph call by call to ``patches``."""
        patches.plan(self._class, "forward", self._forward)

    def drop(self, patches: Patches) -> None:
        """Take it away again."""
        patches.drop(self._class, "forward", self._forward)

    def _observed(self, module: fx.GraphModule, run: ExportedRun) -> Callable[..., Any]:
        original = self._class.forward
        call_by_call = _with_body(module.graph, run.run)

        @functools.wraps(original)
        def forward(instance: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_traced():
                return original(instance, *args, **kwargs)
            return call_by_call(instance, *args, **kwargs)

        skip_in_dynamo(forward)
        return forward


def _with_body(graph: fx.Graph, body: Callable[..., Any]) -> Callable[..., Any]:
    """Return the ``forward`` that torch writes for a graph, with ``body`` in place of its operators.

    Arguments are taken apart, and results put together, as the original does it.
    """
    shell = fx.Graph()
    shell.set_codegen(graph._codegen)
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            copies[node] = shell.node_copy(node)

    def run(*values: Any) -> Any:
        return body(*values)

    shell.output(shell.call_function(run, tuple(copies.values())))
    forward: Callable[..., Any] = type(fx.GraphModule(nn.Module(), shell)).forward
    return forward


class ExportedModels:
    """The exported programs of one session.

    Args:
        sites: the names of modules.
        watch: the current observer, and the state of this thread.
        observe_function: returns what to call in place of a function, which is recorded under a name.
    """

    def __init__(
        self, sites: ModuleNames, watch: tuple[CurrentObserver, ThreadState], observe_function: ObserveFunction
    ) -> None:
        self._sites = sites
        self._calls = _Calls(sites, watch, observe_function)
        self._patches = Patches()
        self._known: weakref.WeakKeyDictionary[nn.Module, ExportedModel] = weakref.WeakKeyDictionary()

    def attach(self) -> contextlib.AbstractContextManager[None]:
        """Run the adopted programs call by call inside the returned context."""
        return self._patches.in_force()

    def adopt(self, head: str, module: nn.Module) -> set[int]:
        """Name the calls in an exported program below ``head``, and return the ids of the modules that only hold
        parameters; nothing where the module is no such program."""
        if not isinstance(module, fx.GraphModule) or exported_class(module) is None:
            return set()
        known = self._model(module)
        if known is None:
            return set()
        for level, part in known.parts:
            self._name(f"{head}.{level.path}.{level.kind}", part)
        called = {level.path for level, _ in known.parts}
        holders = [(path, holder) for path, holder in module.named_modules() if path]
        for path, holder in holders:
            if path not in called and next(holder.parameters(recurse=False), None) is not None:
                self._name(f"{head}.{path}.{type(holder).__name__}", holder)
        return {id(holder) for _, holder in holders}

    def _name(self, stem: str, module: Any) -> None:
        earlier = self._sites.get(module)
        if earlier is None or earlier.stem != stem:
            self._sites.register(stem, module, lambda each: list(each.named_parameters(recurse=False)))

    def _model(self, module: fx.GraphModule) -> ExportedModel | None:
        """Return what is known of an exported program, and run it call by call from now on."""
        known = self._known.get(module)
        if known is not None and known.is_of(module):
            return known
        if known is not None:
            known.drop(self._patches)
        try:
            read = self._known[module] = ExportedModel(module, self._calls)
        except Exception as error:  # noqa: BLE001  (what a graph holds is not ours, and the program must go on)
            let_through(error)
            if first_time(("exported", id(module))):
                logger.warning(
                    "the calls inside the exported program of class %s are not recorded, its graph cannot be read "
                    "(%s): give start() the model that it was exported from",
                    exported_class(module),
                    error_text(error),
                )
            return None
        read.plan(self._patches)
        return read


class _Calls:
    """Implements ``Calls`` for one session."""

    def __init__(
        self, sites: ModuleNames, watch: tuple[CurrentObserver, ThreadState], observe_function: ObserveFunction
    ) -> None:
        current, thread = watch

        def find_site(invocation: Invocation) -> NamedModule | None:
            return None if thread.compiling else sites.get(invocation.part)

        self.module: Callable[..., Any] = wrap_module_call(Invocation.run, find_site, current, thread)
        self.function = observe_function
