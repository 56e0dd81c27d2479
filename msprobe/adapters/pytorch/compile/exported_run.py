"""Run an exported program call by call, so that its modules and functions are observed as those of the eager one.

The graph is that of the program, operator by operator: the results are the same bits. ``Calls`` says how a call of a
module and a call of a function are observed.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import fx

from msprobe.adapters.pytorch.compile.exported_graph import (
    FunctionCall,
    ModuleCall,
    PlainStep,
    Step,
    module_calls,
    part_place,
)
from msprobe.adapters.pytorch.compile.exported_names import Api
from msprobe.adapters.pytorch.compile.program_frames import caller_of
from msprobe.core.store.record_walk import LOST_ARGUMENTS

Values = dict[fx.Node, Any]
"""What nodes have computed."""
_LOST = {LOST_ARGUMENTS: "torch.export keeps no arguments that are no tensors, and each tensor once"}
_RECORDED = (torch.Tensor, list, tuple)


class Calls(Protocol):
    """How calls are observed."""

    def module(self, invocation: Invocation, *args: Any, **lost: Any) -> Any:
        """Return what ``invocation.run(*args)`` returns."""
        ...

    def function(self, api: Api, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what to call in place of a function, which is recorded as ``api``."""
        ...


class ExportedRun:
    """Runs the graph of one exported module.

    Args:
        module: the module, whose parameters and buffers are read at each use.
        whole: its graph as calls.
        calls: how they are observed.

    Attributes:
        parts: what stands for the module of each call.
    """

    def __init__(self, module: fx.GraphModule, whole: ModuleCall, calls: Calls) -> None:
        self._module = weakref.ref(module)
        self._whole = whole
        self._calls = calls
        self.parts = {step: ExportedPart(module, step.level.path) for step in module_calls(whole)}
        self._observed: dict[Step, Callable[..., Any]] = {}

    def run(self, *values: Any) -> Any:
        """Return the result of the graph, given the values of its placeholders."""
        return self._run_whole(self._whole, values)

    def run_steps(self, call: ModuleCall, values: Values) -> None:
        """Run the steps of a call. ``values`` has what it needs, and afterwards what it gives."""
        for step in call.steps:
            if isinstance(step, ModuleCall):
                self._run_module(step, values)
            elif isinstance(step, FunctionCall):
                self._run_function(step, values)
            elif isinstance(step, PlainStep):
                self._run_plain(step, values)
            for node in step.dropped:
                values.pop(node, None)

    def _run_whole(self, whole: ModuleCall, given: Sequence[Any]) -> Any:
        values = dict(zip(whole.inputs, given, strict=True))
        self.run_steps(whole, values)
        return self._filled(whole.result, values)

    def _run_module(self, step: ModuleCall, values: Values) -> None:
        invocation = Invocation(self, step, values)
        taken = [value for node in step.taken if is_recorded(value := values[node])]
        result = caller_of(step.frames)(self._calls.module, (invocation, *taken), _LOST)
        _unpack(invocation.given, result, values)

    def _run_function(self, step: FunctionCall, values: Values) -> None:
        observed = self._observed.get(step)
        if observed is None:
            observed = self._observed[step] = self._calls.function(step.api, self._original(step))
        caller = caller_of(step.frames)
        if not step.own:
            taken = tuple(self._value(node, values) for node in step.taken)
            _unpack(step.given, caller(observed, taken, _LOST), values)
            return
        (node,) = step.nodes
        args, kwargs = self._filled(node.args, values), self._filled(node.kwargs, values)
        values[node] = caller(observed, args if step.order is None else tuple(args[at] for at in step.order), kwargs)

    def _original(self, step: FunctionCall) -> Callable[..., Any]:
        """Return the function of the program that a step stands for."""

        def run(*taken: Any, **lost: Any) -> Any:
            values = dict(zip(step.taken, taken, strict=True))
            for node in step.nodes:
                values[node] = self._node(node, values)
            return _packed([values[node] for node in step.given])

        (first, *_), order = step.nodes, step.order

        def call(*args: Any, **kwargs: Any) -> Any:
            if order is not None:
                own = list(first.args)
                for at, value in zip(order, args, strict=True):
                    own[at] = value
                args = tuple(own)
            return first.target(*args, **kwargs)

        return call if step.own else run

    def _run_plain(self, step: PlainStep, values: Values) -> None:
        (node,) = step.nodes
        body = step.body
        if body is None:
            values[node] = caller_of(step.frames)(self._node, (node, values), {})
            return
        place = part_place(node)
        assert place is not None  # a node with a body has it as an argument

        def part(*given: Any) -> Any:
            return self._run_whole(body, given)

        before, after = self._filled(node.args[:place], values), self._filled(node.args[place + 1 :], values)
        values[node] = node.target(*before, part, *after, **self._filled(node.kwargs, values))

    def _node(self, node: fx.Node, values: Values) -> Any:
        """Return what a node computes."""
        args, kwargs = self._filled(node.args, values), self._filled(node.kwargs, values)
        if node.op == "call_module":
            return self._attribute(str(node.target))(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)

    def _filled(self, argument: Any, values: Values) -> Any:
        """Return an argument with the values of the nodes in it."""
        return fx.node.map_arg(argument, lambda node: self._value(node, values))

    def _value(self, node: fx.Node, values: Values) -> Any:
        return self._attribute(str(node.target)) if node.op == "get_attr" else values[node]

    def _attribute(self, path: str) -> Any:
        return operator.attrgetter(path)(self._module())


class ExportedPart:
    """Stands for the module of one call in an exported graph; the names of the call are found by it."""

    def __init__(self, module: fx.GraphModule, path: str) -> None:
        self._module = weakref.ref(module)
        self._path = path

    def named_parameters(self, recurse: bool = False) -> Iterable[tuple[str, torch.nn.Parameter]]:
        """Return the module's own parameters, as far as the graph uses them."""
        module: Any = self._module()
        for name in self._path.split("."):
            module = getattr(module, name, None)
        return () if module is None else module.named_parameters(recurse=recurse)


class Invocation:
    """One call of a module while it runs.

    Attributes:
        part: stands for the module.
        given: the results that are returned; others go to the values around the call at once.
    """

    __slots__ = ("_around", "_run", "_step", "given", "part")

    def __init__(self, run: ExportedRun, step: ModuleCall, around: Values) -> None:
        self._run = run
        self._around = around
        self._step = step
        self.part = run.parts[step]
        self.given: list[fx.Node] = []

    def run(self, *args: Any, **lost: Any) -> Any:
        """Run the steps of the module with these tensors, and return its results."""
        step, around, handed = self._step, self._around, iter(args)
        values = {node: around[node] for node in step.hidden}
        for node in step.taken:
            values[node] = next(handed) if is_recorded(around[node]) else around[node]
        self._run.run_steps(step, values)
        self.given = [node for node in step.given if is_recorded(values[node])]
        around.update((node, values[node]) for node in step.given if node not in self.given)
        return _packed([values[node] for node in self.given])


def is_recorded(value: Any) -> bool:
    """Return whether a value is an argument or a result in a dump; sizes are not."""
    return isinstance(value, _RECORDED)


def _packed(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _unpack(nodes: Iterable[fx.Node], result: Any, values: Values) -> None:
    nodes = list(nodes)
    values.update(zip(nodes, (result,) if len(nodes) == 1 else result, strict=True))
