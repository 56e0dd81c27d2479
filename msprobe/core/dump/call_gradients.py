"""Collect the gradients of one call from the autograd nodes that it made, and pass them to their receiver.

Thousands of calls wait for their gradients at a time, so a waiting call consists of few objects, and of tuples that it
shares with other calls: every further object makes the garbage collector run sooner, which walks the whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from msprobe.core.backend.protocols import GradientReceiver
from msprobe.core.capture.thread import ThreadState, quiet_hook
from msprobe.core.dump.shield import never_raises

Slots = Collection[tuple[int, int]]
"""Pairs: the position among the gradients of a node, and the position of the output or the slot of the argument."""


class CallGradients:
    """Make the hooks of the nodes, and report the gradients of the arguments when the last one has arrived.

    Args:
        receiver: the gradients are passed to it.
        thread: the session's per-thread state.
        feeding: the keys of the nodes whose inputs are arguments of the call.
        targets: how many nodes made outputs.
        add: returns the sum of two gradients of one argument, computed outside of any graph.
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
        """Return the hook of a node that made outputs.

        Args:
            outputs: the outputs that it made.
            through: the arguments that the call returned unchanged as outputs of this node.
        """
        return _NodeHook(self._thread, self.on_output_gradients, outputs, through)

    def after(self, node: int, slots: Slots) -> Callable[..., None]:
        """Return the hook of a node whose inputs are arguments, in ``slots``."""
        return _NodeHook(self._thread, self.on_input_gradients, node, slots)

    @property
    def errors(self) -> Any:
        return self._receiver.errors

    def on_output_gradients(self, grad_outputs: Any, outputs: Slots, through: Slots) -> None:
        """Take the gradients that have arrived at a node that made outputs."""
        for number, position in outputs:
            self._receiver.grad_output(position, gradient_at(grad_outputs, number))
        self._collect(through, grad_outputs)
        self._outputs_left -= 1
        if not self._pending and self._outputs_left <= 0:
            self._report()

    def on_input_gradients(self, grad_inputs: Any, node: int, slots: Slots) -> None:
        """Take the gradients that a node has passed on to arguments."""
        self._collect(slots, grad_inputs)
        self._pending.discard(node)
        if not self._pending:
            self._report()

    @never_raises
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
    """Return the gradient at ``position``; None past the end.

    Args:
        gradients: the argument of a hook: several gradients in a tuple, or a single one.
    """
    if type(gradients) is not tuple and not isinstance(gradients, (tuple, list)):
        return gradients if position == 0 else None
    return gradients[position] if position < len(gradients) else None
