"""Observe the gradients of single calls where tensors have no autograd node: MindSpore before 2.9.

Hooks on the outputs see the gradients that arrive there. The gradients of the arguments cannot be separated from those
of other uses of the arguments, so the ``output`` of a backward record is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindspore import Tensor

from msprobe.adapters.mindspore.taps.tensor_hooks import watch
from msprobe.adapters.mindspore.versions import executor
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
        if not _executor.grad_flag():
            return
        gradients = _OutputGradients(receiver)
        for tensor in tensors_in(result, Tensor):
            gradients.observe(tensor, self._thread)
        if gradients.count:
            receiver.expect(gradients.count)

    def watch(self, tensor: Any, report: Callable[[Any], None]) -> Callable[[], None] | None:
        return watch(tensor, self._thread, report)


class _OutputGradients:
    """Reports the gradients of the outputs of one call, and the end of its backward after the last one.

    Attributes:
        count: the outputs that are observed.
    """

    def __init__(self, receiver: GradientReceiver) -> None:
        self._receiver = receiver
        self._arrived = 0
        self.count = 0

    def observe(self, tensor: Any, thread: ThreadState) -> None:
        """Observe one more output, unless no gradient can reach it: it has no place in the record then."""
        if watch(tensor, thread, self._hook(self.count)) is not None:
            self.count += 1

    def _hook(self, position: int) -> Callable[[Any], None]:
        def report(gradient: Any) -> None:
            self._receiver.grad_output(position, gradient)
            self._arrived += 1
            if self._arrived == self.count:
                self._arrived = 0
                self._receiver.grad_inputs({})

        return report


def _no_slot(tensor: Any) -> None:
    """Return no slot: it is not known which gradients reach the arguments."""
