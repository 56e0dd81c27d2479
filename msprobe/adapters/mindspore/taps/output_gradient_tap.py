"""Observe the gradients of single calls where tensors have no autograd node: MindSpore before 2.9.

Hooks on the outputs see the gradients that arrive there. The gradients of the arguments cannot be separated from those
of other uses of the arguments, so the ``output`` of a backward record is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindspore import Tensor

from msprobe.adapters.mindspore.taps.tensor_hooks import watch
from msprobe.adapters.mindspore.versions import can_have_gradient, executor
from msprobe.core.backend.protocols import GradientReceiver, Template
from msprobe.core.capture.containers import shape_of, tensors_in
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.log import first_time, logger

_executor = executor()


class MindSporeOutputGradientTap:
    """Implements ``GradientTap`` with hooks on tensors only."""

    def __init__(self, thread: ThreadState) -> None:
        self._thread = thread
        if first_time("mindspore output gradients"):
            logger.warning("this MindSpore does not show where gradients leave a call: only those of outputs are kept")

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return (args, kwargs) if _executor.grad_flag() else None

    def template(self, prepared: Any) -> Template:
        args, _ = prepared
        return [shape_of(value, _no_slot, Tensor) for value in args], {}

    def attach(self, prepared: Any, result: Any, receiver: GradientReceiver, report_early: bool = False) -> None:
        outputs = [tensor for tensor in tensors_in(result, Tensor) if _can_have_gradient(tensor)]
        if outputs:
            receiver.expect(len(outputs))
            gradients = _OutputGradients(receiver, len(outputs))
            for position, tensor in enumerate(outputs):
                watch(tensor, self._thread, gradients.hook(position))

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        return watch(tensor, self._thread, report)


class _OutputGradients:
    """Reports the gradients of the outputs of one call, and the end of its backward after the last one."""

    def __init__(self, receiver: GradientReceiver, count: int) -> None:
        self._receiver = receiver
        self._count = self._left = count

    def hook(self, position: int) -> Callable[[Any], None]:
        """Return the hook of the output ``position``."""

        def report(gradient: Any) -> None:
            self._receiver.grad_output(position, gradient)
            self._left -= 1
            if not self._left:
                self._left = self._count
                self._receiver.grad_inputs({})

        return report


def _no_slot(tensor: Any) -> None:
    """Return no slot: it is not known which gradients reach the arguments."""


def _can_have_gradient(tensor: Any) -> bool:
    return can_have_gradient(tensor) and bool(_executor.grad_flag())
