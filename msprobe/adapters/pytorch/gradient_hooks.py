"""The hooks that the gradients of one call arrive at: they gather them over its nodes and tell the receiver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState
from msprobe.core.dump.shield import shielded

_add = torch._C._VariableFunctions.add


class SingleHook:
    """The hook for the usual case: one node made the only output and feeds every argument."""

    __slots__ = ("_receiver", "_slots", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, slots: list[tuple[int, int]]) -> None:
        self._receiver = receiver
        self._thread = thread
        self._slots = slots

    def __call__(self, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        thread = self._thread
        busy, thread.busy = thread.busy, True
        try:
            self._receiver.whole(grad_outputs[:1], {slot: _at(grad_inputs, index) for index, slot in self._slots})
        finally:
            thread.busy = busy


class WatchHooks:
    """Collects the gradients of one call over the nodes it made, and reports when the last one is there."""

    __slots__ = ("_all", "_gradients", "_outputs_left", "_pending", "_receiver", "_targets", "_thread")

    def __init__(self, receiver: GradientReceiver, thread: ThreadState, found: Mapping[Any, Any], targets: int) -> None:
        self._receiver = receiver
        self._thread = thread
        self._all = frozenset(id(node) for node in found)
        self._targets = targets
        self._reset()

    def before(self, outputs: list[tuple[int, int]], through: list[tuple[int, int]]) -> Callable[..., None]:
        """The hook for a node that made outputs: its incoming gradients, and arguments returned unchanged."""

        def hook(grad_outputs: tuple[Any, ...]) -> None:
            busy, self._thread.busy = self._thread.busy, True
            try:
                for number, position in outputs:
                    self._receiver.grad_output(position, _at(grad_outputs, number))
                self._collect(through, grad_outputs)
                self._outputs_left -= 1
                if not self._pending and self._outputs_left <= 0:
                    self._report()
            finally:
                self._thread.busy = busy

        return hook

    def after(self, node: int, slots: list[tuple[int, int]]) -> Callable[..., None]:
        """The hook for a node that feeds arguments."""

        def hook(grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
            busy, self._thread.busy = self._thread.busy, True
            try:
                self._collect(slots, grad_inputs)
                self._pending.discard(node)
                if not self._pending:
                    self._report()
            finally:
                self._thread.busy = busy

        return hook

    @shielded
    def _collect(self, slots: list[tuple[int, int]], gradients: tuple[Any, ...]) -> None:
        for number, slot in slots:
            gradient = _at(gradients, number)
            if gradient is None:
                continue
            earlier = self._gradients.get(slot)
            with torch.no_grad():
                self._gradients[slot] = gradient if earlier is None else _add(earlier, gradient)

    def _report(self) -> None:
        gradients = self._gradients
        self._reset()
        self._receiver.grad_inputs(gradients)

    @property
    def errors(self) -> Any:
        return self._receiver.errors

    def _reset(self) -> None:
        self._gradients: dict[int, Any] = {}
        self._pending = set(self._all)
        self._outputs_left = self._targets


def _at(values: tuple[Any, ...], index: int) -> Any:
    return values[index] if index < len(values) else None
