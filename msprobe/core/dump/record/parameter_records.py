"""The parameters of a model as a step leaves them, and the gradients that its optimizers get.

Both are read from the parameters themselves, so it does not matter which optimizer changes them, or whether the program
does that by hand. A parameter that is sharded is read as this process holds it. The records stand in the header of
dump.json. They cost a measurement of every parameter, so ``step_records`` of the configuration asks for them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msprobe.core.backend.protocols import ModuleTap
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.call_record import HeaderItem, HeaderRecord
from msprobe.core.dump.record.error_boundary import never_raises
from msprobe.core.dump.record.step_recorder import StepRecorder

PARAMETERS, GRADIENTS = "parameters", "gradients"


class ParameterRecords:
    """Record the parameters and gradients of one step.

    Args:
        recorder: measures them and takes the records.
        modules: knows the parameters of the adopted models; None where there are none.
        thread: the state of the thread, which is quiet meanwhile.
    """

    def __init__(self, recorder: StepRecorder, modules: ModuleTap | None, thread: ThreadState) -> None:
        self.errors = recorder.errors
        self._recorder = recorder
        self._modules = modules
        self._thread = thread
        self._wanted = recorder.plan.step_records if recorder.plan.bodies else frozenset()
        self._seen_optimizer = False

    @never_raises
    def optimizer_begins(self, number: int, names: Collection[str | None]) -> None:
        """Record the gradients of the parameters that the first step of an optimizer is about to change."""
        self._seen_optimizer = True
        if GRADIENTS in self._wanted:
            self._write_gradients(number, names)

    @never_raises
    def end_step(self) -> None:
        """Record the parameters; where no optimizer was seen, also the gradients that are still there."""
        if GRADIENTS in self._wanted and not self._seen_optimizer:
            self._write_gradients(None, None)
        if PARAMETERS in self._wanted:
            nodes = [self._item(name, parameter) for name, parameter, _ in self._parameters()]
            self._recorder.sink.write(HeaderRecord(parameters_after_step=nodes))

    def _write_gradients(self, number: int | None, names: Collection[str | None] | None) -> None:
        listed = [
            self._item(name, gradient)
            for name, _, gradient in self._parameters()
            if gradient is not None and (names is None or name in names)
        ]
        self._recorder.sink.write(HeaderItem("gradients_of_step", {"optimizer": number, "gradients": listed}))

    def _parameters(self) -> list[tuple[str, Any, Any]]:
        return [] if self._modules is None else self._modules.named_parameters()

    def _item(self, name: str, tensor: Any) -> dict[str, Any]:
        with self._thread.quiet():
            return {"name": name, "value": self._recorder.describer.node(tensor, "")}
