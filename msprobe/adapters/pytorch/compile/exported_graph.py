"""The graph of an exported program as nested calls: of its modules, and of the functions that the program called.

``torch.export`` makes one flat list of operators of a model. ``read_graph`` finds the calls in it again, by the
metadata of the nodes (``exported_names``): a ``ModuleCall`` holds the steps between the begin and the end of a call of
a module, a ``FunctionCall`` the operators that one function of the program became, a ``PlainStep`` what no dump has.
A value that a call needs from outside is an argument of it, unless it is a parameter or a buffer; a value that is used
outside is a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from msprobe.adapters.pytorch.compile.exported_names import (
    Api,
    ModuleLevel,
    api_of,
    argument_order,
    called_function,
    frames_around,
    frames_in_program,
    has_own_arguments,
    modules_around,
)
from msprobe.adapters.pytorch.compile.program_frames import Frame

_INLINED = frozenset(("wrap_with_set_grad_enabled", "wrap_with_autocast"))
_CHECKS = frozenset(("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_size", "sym_constrain_range"))
_WHOLE = ModuleLevel("", "", "")
Place = tuple[tuple[ModuleLevel, ...], tuple[Frame, ...]]
_OUTSIDE: Place = ((), ())
_CALLS = ("call_function", "call_module", "call_method")


@dataclass(slots=True, eq=False)
class Step:
    """One step of a graph.

    Attributes:
        nodes: the nodes that it runs; a call of a module has none of its own.
        frames: the lines of the program, outermost first, from the call of the module around on.
        taken: values that it needs from the steps before it, in the order of their first use.
        given: values that it computes for the steps after it.
        dropped: values of the call around it that nothing needs afterwards.
    """

    nodes: list[fx.Node]
    frames: tuple[Frame, ...]
    taken: list[fx.Node] = field(default_factory=list)
    given: list[fx.Node] = field(default_factory=list)
    dropped: list[fx.Node] = field(default_factory=list)

    def all_nodes(self) -> Iterator[fx.Node]:
        """Yield the nodes, with those of steps inside."""
        yield from self.nodes


@dataclass(slots=True, eq=False)
class PlainStep(Step):
    """One node that is no call of the program.

    Attributes:
        body: the part of the graph that it runs in another mode, such as ``torch.no_grad()``.
    """

    body: ModuleCall | None = None


@dataclass(slots=True, eq=False)
class FunctionCall(Step):
    """The nodes of one call of a function.

    Attributes:
        api: its name in a dump.
        own: whether it is one operator with the arguments of the function; then they are recorded as they are.
        order: where the arguments of the function stand in those of this operator; None where nothing is known.
    """

    api: Api = ("", "")
    own: bool = True
    order: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False)
class ModuleCall(Step):
    """One call of a module. The whole graph is one too, without a path.

    Attributes:
        level: names the module.
        place: the modules down to this one, beside the model itself, and the lines of the program up to its call.
        steps: what the call does.
        hidden: placeholders that it needs and that stand for parameters and buffers.
        inputs: the placeholders of a whole graph.
        result: what a whole graph returns; nodes in it stand for their values.
    """

    level: ModuleLevel = _WHOLE
    place: Place = _OUTSIDE
    steps: list[Step] = field(default_factory=list)
    hidden: list[fx.Node] = field(default_factory=list)
    inputs: list[fx.Node] = field(default_factory=list)
    result: Any = None

    def all_nodes(self) -> Iterator[fx.Node]:
        """Yield the nodes of all steps."""
        for step in self.steps:
            yield from step.all_nodes()


def read_graph(module: fx.GraphModule, place: Place = _OUTSIDE, constants: Iterable[int] = ()) -> ModuleCall:
    """Return the calls in the graph of a module. The result does not keep the module alive.

    Args:
        module: what ``ExportedProgram.module()`` returns, or a part of it.
        place: the modules that the graph lies in, beside the model itself, and the lines up to the call of the last.
        constants: the positions of placeholders that stand for parameters and buffers.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    returned = graph.graph_copy(module.graph, copies)
    for node, copy in copies.items():
        copy.meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
    output = graph.output(returned)
    whole = _Reader(module, place).read(graph)
    whole.inputs = [node for node in graph.nodes if node.op == "placeholder"]
    whole.result, whole.given = output.args[0], output.all_input_nodes
    known = {node for node in graph.nodes if node.op == "get_attr"}
    _Values(known | {whole.inputs[position] for position in constants}).find(whole)
    return whole


def module_calls(call: ModuleCall) -> Iterator[ModuleCall]:
    """Yield the calls of modules inside a call, those in parts that run in another mode too."""
    for step in call.steps:
        if isinstance(step, ModuleCall):
            yield step
            yield from module_calls(step)
        elif isinstance(step, PlainStep) and step.body is not None:
            yield from module_calls(step.body)


_KEPT = ("nn_module_stack", "torch_fn", "source_fn_stack", "stack_trace")


class _Reader:
    """Puts one node after the other into the call that it belongs to."""

    def __init__(self, module: fx.GraphModule, place: Place) -> None:
        self._module = module
        self._around = len(place[0])
        self._open = [ModuleCall([], (), place=place)]
        self._closed: set[str] = set()

    def read(self, graph: fx.Graph) -> ModuleCall:
        for node in graph.nodes:
            if node.op in _CALLS:
                self._add(node)
        return self._open[0]

    def _add(self, node: fx.Node) -> None:
        frames = frames_in_program(node)
        part = self._inlined(node)
        if part is not None:
            self._add_part(node, part)
        elif _is_silent(node):
            self._open[-1].steps.append(PlainStep([node], self._inside(frames)))
        else:
            self._enter(modules_around(node)[self._around :], frames)
            self._add_call(node, frames)

    def _add_call(self, node: fx.Node, frames: tuple[Frame, ...]) -> None:
        steps, api = self._open[-1].steps, api_of(node)
        if api is None:
            steps.append(PlainStep([node], self._inside(frames)))
            return
        begin = _last_call(steps)
        if begin is not None and (begin.api, called_function(begin.nodes[0])) == (api, called_function(node)):
            place = steps.index(begin) + 1
            begin.nodes += [*(each for step in steps[place:] for each in step.nodes), node]
            begin.own, begin.order = False, None
            del steps[place:]
            return
        own = has_own_arguments(api, node)
        order = argument_order(api, node) if own else None
        steps.append(FunctionCall([node], self._inside(frames), api=api, own=own, order=order))

    def _enter(self, levels: Sequence[ModuleLevel], frames: tuple[Frame, ...]) -> None:
        """Close the calls that a node is not in, and open those that begin with it."""
        levels = [level for level in levels if level.key not in self._closed]
        common = 0
        while common < min(len(levels), len(self._open) - 1) and self._open[common + 1].level.key == levels[common].key:
            common += 1
        self._closed.update(call.level.key for call in self._open[common + 1 :])
        del self._open[common + 1 :]
        for level in levels[common:]:
            levels_down = (*self._open[-1].place[0], level)
            until = frames_around(frames, levels_down)
            call = ModuleCall([], self._inside(until), level=level, place=(levels_down, until))
            self._open[-1].steps.append(call)
            self._open.append(call)

    def _inside(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the frames from the call of the module around on: those before are there already when it runs."""
        before = self._open[-1].place[1]
        return frames[len(before) :] if frames[: len(before)] == before else frames

    def _inlined(self, node: fx.Node) -> fx.GraphModule | None:
        """Return the part of the graph that a node runs in another mode."""
        if getattr(node.target, "__name__", "") not in _INLINED:
            return None
        place = part_place(node)
        part = None if place is None else getattr(self._module, str(node.args[place].target), None)
        return part if isinstance(part, fx.GraphModule) else None

    def _add_part(self, node: fx.Node, part: fx.GraphModule) -> None:
        inside = [modules_around(each)[self._around :] for each in part.graph.nodes if each.op in _CALLS]
        levels = _common([modules_around(node)[self._around :], *inside])
        self._enter(levels, frames_in_program(next((each for each in part.graph.nodes if each.stack_trace), node)))
        given = node.args[(part_place(node) or 0) + 1 :]
        constants = [at for at, arg in enumerate(given) if isinstance(arg, fx.Node) and arg.op == "get_attr"]
        body = read_graph(part, self._open[-1].place, constants)
        self._open[-1].steps.append(PlainStep([node], (), body=body))


def part_place(node: fx.Node) -> int | None:
    """Return the position of the argument that is the part of the graph which a node runs in another mode."""
    places = (at for at, arg in enumerate(node.args) if isinstance(arg, fx.Node) and arg.op == "get_attr")
    return next(places, None)


def _common(stacks: Sequence[Sequence[ModuleLevel]]) -> list[ModuleLevel]:
    """Return the levels that all stacks begin with."""
    shared: list[ModuleLevel] = []
    for levels in zip(*stacks, strict=False):
        if any(level.key != levels[0].key for level in levels):
            break
        shared.append(levels[0])
    return shared


def _last_call(steps: Sequence[Step]) -> FunctionCall | None:
    """Return the last call of a function, when only what belongs to it came since."""
    for step in reversed(steps):
        if isinstance(step, FunctionCall):
            return step
        if not isinstance(step, PlainStep) or not all(_is_silent(node) for node in step.nodes):
            return None
    return None


def _is_silent(node: fx.Node) -> bool:
    """Return whether a node is part of the call before it: one of several results, a check, a size."""
    packet = getattr(node.target, "overloadpacket", None)
    if packet is not None:
        return packet.__name__ in _CHECKS
    return node.op == "call_module" or not isinstance(node.target, torch._ops.OperatorBase)


class _Values:
    """Finds which values go into each step and out of it.

    Args:
        constants: parameters and buffers, which are no arguments of modules.
    """

    def __init__(self, constants: set[fx.Node]) -> None:
        self._constants = constants

    def find(self, call: ModuleCall) -> None:
        """Fill in ``taken``, ``given`` and ``dropped`` of all steps inside ``call``."""
        for step in call.steps:
            made = set(step.all_nodes())
            needed = dict.fromkeys(source for node in step.all_nodes() for source in node.all_input_nodes)
            outside = [node for node in needed if node not in made]
            step.taken = outside
            step.given = [node for node in step.all_nodes() if any(user not in made for user in node.users)]
            if isinstance(step, ModuleCall):
                step.taken = [node for node in outside if node not in self._constants]
                step.hidden = [node for node in outside if node in self._constants and node.op == "placeholder"]
                self.find(step)
        self._find_dropped(call)

    def _find_dropped(self, call: ModuleCall) -> None:
        needed_later = set(call.given) | self._constants
        for step in reversed(call.steps):
            step.dropped = [node for node in dict.fromkeys((*step.taken, *step.given)) if node not in needed_later]
            needed_later.update(step.taken)
