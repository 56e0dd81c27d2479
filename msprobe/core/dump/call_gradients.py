"""The gradients of one call, gathered over the autograd nodes it made and told to their receiver.

Thousands of calls wait for their gradients at a time, so what waits is made of few objects, and of tuples that calls
have in common: each object more brings the garbage collector closer, which walks the whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState, quiet_hook
from msprobe.core.dump.shield import shielded

Slots = Collection[tuple[int, int]]
"""Position among the gradients of a node, and whose it is: the output at a position, or the argument in a slot."""


class CallGradients:
    """Makes the hooks of the nodes, and reports the gradients of the arguments when the last one is there.

    Args:
        feeding: the keys of the nodes that feed arguments.
        targets: how many nodes made outputs.
        add: the sum of two gradients of one argument, outside of any graph.
    """

    __slots__ = ("_add", "_feeding", "_gradients", "_outputs_left", "_pending", "_receiver", "_targets", "_thread")

    def __init__(
        self,
        receiver: GradientReceiver,
        thread: ThreadState,
        feeding: Iterable[int],
        targets: int,
        add: Callable[[Any, Any], Any],
    ) -> None:
        self._receiver = receiver
        self._thread = thread
        self._feeding = tuple(feeding)
        self._targets = targets
        self._add = add
        self._gradients: dict[int, Any] = {}
        self._pending = set(self._feeding)
        self._outputs_left = targets

    def before(self, outputs: Slots, through: Slots) -> Callable[..., None]:
        """The hook for a node that made outputs: its incoming gradients, and arguments returned unchanged."""
        return _NodeHook(self._thread, self._came, outputs, through)

    def after(self, node: int, slots: Slots) -> Callable[..., None]:
        """The hook for a node that feeds arguments."""
        return _NodeHook(self._thread, self._left, node, slots)

    @property
    def errors(self) -> Any:
        return self._receiver.errors

    def _came(self, grad_outputs: Any, outputs: Slots, through: Slots) -> None:
        """One of the nodes that made outputs has its gradients."""
        for number, position in outputs:
            self._receiver.grad_output(position, gradient_at(grad_outputs, number))
        self._collect(through, grad_outputs)
        self._outputs_left -= 1
        if not self._pending and self._outputs_left <= 0:
            self._report()

    def _left(self, grad_inputs: Any, node: int, slots: Slots) -> None:
        """One of the nodes that feed arguments has handed its gradients on."""
        self._collect(slots, grad_inputs)
        self._pending.discard(node)
        if not self._pending:
            self._report()

    @shielded
    def _collect(self, slots: Slots, gradients: Any) -> None:
        for number, slot in slots:
            gradient = gradient_at(gradients, number)
            if gradient is not None:
                earlier = self._gradients.get(slot)
                self._gradients[slot] = gradient if earlier is None else self._add(earlier, gradient)

    def _report(self) -> None:
        gradients, self._gradients = self._gradients, {}
        self._pending = set(self._feeding)
        self._outputs_left = self._targets
        self._receiver.grad_inputs(gradients)


class _NodeHook:
    """Report the gradients that pass one node, with the slots that were given when the hook was made."""

    __slots__ = ("_first", "_report", "_second", "_thread")

    def __init__(self, thread: ThreadState, report: Callable[[Any, Any, Any], None], first: Any, second: Any) -> None:
        self._thread = thread
        self._report = report
        self._first = first
        self._second = second

    @quiet_hook
    def __call__(self, gradients: Any, others: Any = None) -> None:
        self._report(gradients, self._first, self._second)


def gradient_at(gradients: Any, position: int) -> Any:
    """The gradient at ``position`` of what a hook was given: several in a tuple, or a single one; None past the end."""
    if type(gradients) is not tuple and not isinstance(gradients, (tuple, list)):
        return gradients if position == 0 else None
    return gradients[position] if position < len(gradients) else None
