"""Observe gradients: those of single calls (``TorchGradientTap``), and those of one tensor (``watch``).

The gradients of a call are observed at the autograd nodes that the call created. Nothing is put into the graph: hooks
on existing nodes see the gradients that flow anyway, so results stay bit-identical and in-place operators keep working.
A node belongs to the call when its sequence number was assigned during the call. The gradient of output k is what
arrives at its node; the gradient of an argument is what leaves the call's nodes along the edge to that argument.
Several uses of one argument inside the call add up; uses outside the call do not count.

Most calls created one node, which produced the only output and feeds every argument: ``SingleNodeHook`` serves them.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.memory import PLAIN, WithoutAutograd, WithoutSubclass
from msprobe.adapters.pytorch.tensors.operation_modes import in_modes, outside_modes
from msprobe.core.backend.protocols import GradientReceiver, Template
from msprobe.core.capture.containers import interned, shape_of, tensors_in
from msprobe.core.capture.thread_state import ThreadState, quiet_hook
from msprobe.core.dump.record.backward import CallGradients, Slots

_AccumulateGrad = torch._C._functions.AccumulateGrad
_add = torch._C._VariableFunctions.add
_sequence = torch._C._autograd._get_sequence_nr
_graph_task = torch._C._current_graph_task_id
_NEVER = 2**64 - 1
_ATOMS = frozenset({type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size})

Edge = tuple[Any, int]
_NO_KEYWORDS: dict[str, Any] = {}  # one for all calls, and never written to


class TorchGradientTap:
    """Implements ``GradientTap``."""

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread
        self._compiled = threading.local()

    @contextlib.contextmanager
    def with_call(self, call: Any) -> Iterator[None]:
        """Answer ``prepare`` with ``call`` inside, where autograd is off: its hooks are in a compiled graph."""
        self._compiled.call = call
        try:
            yield
        finally:
            self._compiled.call = None

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not torch.is_grad_enabled():
            return getattr(self._compiled, "call", None)
        prepared = GradientSlots()
        prepared.positional = interned([_shape(value, prepared) for value in args])
        if kwargs:
            shapes = {key: _shape(value, prepared) for key, value in kwargs.items()}
            prepared.keywords = {key: shape for key, shape in shapes.items() if shape is not None}
        return prepared

    def template(self, prepared: Any) -> Template:
        return prepared.positional, prepared.keywords

    def attach(self, prepared: Any, result: Any, receiver: GradientReceiver, report_early: bool = False) -> None:
        if type(prepared) is not GradientSlots:
            prepared.connect(receiver)
            return
        if type(result) is torch.Tensor and not report_early:
            node = result.grad_fn
            if node is None:
                self._attach_leaf(prepared, result, receiver)
                return
            slots = _single_node_slots(node, result.output_nr, prepared)
            if slots is not None:
                receiver.expect(1)
                node.register_hook(SingleNodeHook(receiver, self._thread, slots))
                return
        self._attach_any(prepared, result, receiver)

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        return watch(tensor, self._thread, report)

    def _attach_leaf(self, prepared: GradientSlots, result: torch.Tensor, receiver: GradientReceiver) -> None:
        """Observe the gradient of an argument that a recomputed call returned unchanged.

        Reentrant checkpointing recomputes with copies of the arguments that have no past, where the first call was
        given tensors of the graph.
        """
        slots = prepared.arguments.get(id(result)) if result.requires_grad and _graph_task() != -1 else None
        if slots:
            receiver.expect(1)
            result.register_hook(PassedLeafHook(receiver, self._thread, slots[0]))

    def _attach_any(self, prepared: GradientSlots, result: Any, receiver: GradientReceiver) -> None:
        """Attach hooks for any number of outputs made by any number of nodes."""
        targets: dict[Any, list[tuple[int, int]]] = {}
        count = 0
        with WithoutSubclass():
            for tensor in tensors_in(result, torch.Tensor):
                node = tensor.grad_fn
                if node is not None:
                    targets.setdefault(node, []).append((tensor.output_nr, count))
                    count += 1
        if not targets:
            return
        receiver.expect(count)
        contributions = _contributions(targets, prepared)
        through = {node: _passed_through(node, outputs, prepared) for node, outputs in targets.items()}
        single = _single_slots(contributions.values(), through.values())
        call = CallGradients(receiver, self._thread, map(id, contributions), len(targets), _sum, single)
        for node, outputs in targets.items():
            node.register_prehook(call.before(interned(outputs), interned(through[node])))
        for node, slots in contributions.items():
            node.register_hook(call.after(id(node), interned(slots)))


class GradientSlots:
    """The slots of a call's arguments, by edge into the graph or, for leaves, by id; made before the call runs."""

    __slots__ = ("arguments", "count", "keywords", "positional", "since")

    def __init__(self) -> None:
        self.since: int = _sequence()
        self.arguments: dict[Edge | int, tuple[int, ...]] = {}
        self.positional: tuple[Any, ...] = ()
        self.keywords = _NO_KEYWORDS
        self.count = 0

    def slot(self, tensor: torch.Tensor) -> int | None:
        """Give one argument a slot and return it; None when no gradient can reach the argument."""
        if type(tensor) not in PLAIN:
            with WithoutSubclass():
                edge = _edge_of(tensor)
        else:
            edge = _edge_of(tensor)
        if edge is None:
            return None
        slot = self.count
        self.count = slot + 1
        node = edge[0]
        key = id(tensor) if node is None else edge
        earlier = self.arguments.get(key)
        self.arguments[key] = (slot,) if earlier is None else (*earlier, slot)
        return slot


def _edge_of(tensor: torch.Tensor) -> Edge | None:
    """Return where the gradient of ``tensor`` comes from: node and output; no node for a leaf, None for no gradient."""
    return (tensor.grad_fn, tensor.output_nr) if tensor.requires_grad else None


class SingleNodeHook:
    """Report all gradients of a call at once when its only node has run."""

    __slots__ = ("_receiver", "_slots", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, slots: Slots) -> None:
        self._receiver = receiver
        self._thread = thread
        self._slots = slots

    @quiet_hook
    def __call__(self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        count = len(grad_inputs)
        gradients = {slot: grad_inputs[index] if index < count else None for index, slot in self._slots}
        self._receiver.whole(grad_outputs[:1], gradients)


class PassedLeafHook:
    """Report the gradient of an argument that is the output of its call as well."""

    __slots__ = ("_receiver", "_slot", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, slot: int) -> None:
        self._receiver = receiver
        self._thread = thread
        self._slot = slot

    @quiet_hook
    def __call__(self, gradient: Any, others: Any = None) -> None:
        self._receiver.whole((gradient,), {self._slot: gradient})


def _sum(earlier: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    with outside_modes(), WithoutAutograd():
        return _add(earlier, gradient)


def _shape(value: Any, prepared: GradientSlots) -> Any:
    """Return the template of one argument: the slot of a tensor that takes part in autograd, nested for containers."""
    kind = type(value)
    if kind in _ATOMS:
        return None
    return prepared.slot(value) if issubclass(kind, torch.Tensor) else shape_of(value, prepared.slot, torch.Tensor)


def _single_node_slots(node: Any, output: int, prepared: GradientSlots) -> tuple[tuple[int, int], ...] | None:
    """Return the index and slot of each argument whose gradient ``node`` itself produces.

    None when more nodes take part in the call.
    """
    if output or not prepared.since <= node._sequence_nr() < _NEVER:
        return None
    arguments = prepared.arguments
    pairs: list[tuple[int, int]] = []
    for index, edge in enumerate(node.next_functions):
        following = edge[0]
        if following is None:
            continue
        slots = arguments.get(id(following.variable) if type(following) is _AccumulateGrad else edge)
        if slots is None or len(slots) > 1:
            return None
        pairs.append((index, slots[0]))
    return interned(pairs) if len({slot for _, slot in pairs}) == len(pairs) else None


def _contributions(targets: Mapping[Any, Any], prepared: GradientSlots) -> dict[Any, list[tuple[int, int]]]:
    """Return the call's nodes that feed its arguments: node -> (index of the node's input, slot of the argument)."""
    contributions: dict[Any, list[tuple[int, int]]] = {}
    since, arguments = prepared.since, prepared.arguments
    if not arguments:
        return contributions
    used: dict[Any, int] = {}
    stack = [node for node in targets if since <= node._sequence_nr() < _NEVER]
    seen = set(stack)
    while stack:
        node = stack.pop()
        for index, edge in enumerate(node.next_functions):
            following = edge[0]
            if following is None:
                continue
            slots = arguments.get(edge)
            if slots is None and type(following) is _AccumulateGrad:
                slots = arguments.get(id(following.variable))
            if slots is not None:
                turn = used.get(edge, 0)
                used[edge] = turn + 1
                contributions.setdefault(node, []).append((index, slots[turn % len(slots)]))
            elif following not in seen and since <= following._sequence_nr() < _NEVER:
                seen.add(following)
                stack.append(following)
    return contributions


def _single_slots(contributions: Iterable[Slots], passed_through: Iterable[Slots]) -> tuple[int, ...]:
    """Return the slots that occur once in ``contributions`` and not in ``passed_through``."""
    uses = Counter(slot for pairs in contributions for _, slot in pairs)
    through = {slot for pairs in passed_through for _, slot in pairs}
    return interned([slot for slot, number in uses.items() if number == 1 and slot not in through])


def _passed_through(node: Any, outputs: list[tuple[int, int]], prepared: GradientSlots) -> tuple[tuple[int, int], ...]:
    """Return the outputs that are arguments returned unchanged; their gradient is that of the argument as well."""
    pairs = [(number, prepared.arguments.get((node, number))) for number, _ in outputs]
    return tuple([(number, slots[0]) for number, slots in pairs if slots])


def watch(tensor: Any, thread: ThreadState, report: Callable[[Any], None]) -> Callable[[], None] | None:
    """Report every gradient of ``tensor`` until the returned function is called; return None when it can have none."""
    with WithoutSubclass():
        if not tensor.requires_grad:
            return None
        remove: Callable[[], None] = tensor.register_hook(TensorHook(thread, report)).remove
    return remove


class TensorHook:
    """Pass what a hook of one tensor gets to ``report``, while ``thread`` is busy."""

    __slots__ = ("_report", "_thread")

    def __init__(self, thread: ThreadState, report: Callable[[Any], None]) -> None:
        self._thread = thread
        self._report = report

    @quiet_hook
    def __call__(self, gradient: Any, others: Any = None) -> None:
        if in_modes():
            with outside_modes():
                self._report(gradient)
        else:
            self._report(gradient)
