"""``CallGradients``: the gradients of one call of a module, which arrive one by one, reported together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.monitor.unrecorded import unrecorded
from msprobe.monitor.watch import ModuleReports


class CallGradients:
    """Takes the gradients of one call, and reports them together (implements ``GradientReceiver``).

    Args:
        reports: takes them.
        name: the name of the module.
        template: the arguments of the call with a slot for each that can have a gradient (``GradientTap.template``).
        outputs: how many outputs the call has.
    """

    def __init__(self, reports: ModuleReports, name: str, template: Any, outputs: int) -> None:
        self.errors = ErrorLog(None)
        self._reports = reports
        self._name = name
        self._slots = sorted(_slots_of(template))
        self._outputs: list[Any] = [None] * outputs
        self._inputs: dict[int, Any] = {}

    def expect(self, outputs: int) -> None:
        """Expect gradients of this many outputs."""
        self._outputs = [None] * outputs

    @unrecorded
    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        """Take all gradients at once."""
        self._report(list(grad_outputs), grad_inputs)

    def grad_output(self, position: int, gradient: Any) -> None:
        """Take the gradient of an output."""
        self._outputs[position] = gradient

    def grad_input(self, slot: int, gradient: Any) -> None:
        """Take the gradient of an input."""
        self._inputs[slot] = gradient

    @unrecorded
    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        """Take the gradients of the other inputs; the call is done."""
        inputs, self._inputs = {**self._inputs, **gradients}, {}
        outputs, self._outputs = self._outputs, [None] * len(self._outputs)
        self._report(outputs, inputs)

    def _report(self, outputs: list[Any], gradients: Mapping[int, Any]) -> None:
        inputs = [gradients.get(slot) for slot in self._slots] or [None]
        self._reports.backward(self._name, inputs, outputs)


def _slots_of(template: Any) -> list[int]:
    """Return the slots in the template of the arguments of a call."""
    if isinstance(template, int):
        return [template]
    if isinstance(template, Mapping):
        template = template.values()
    elif not isinstance(template, (list, tuple)):
        return []
    return [slot for part in template for slot in _slots_of(part)]
