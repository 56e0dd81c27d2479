"""The parameters of a model as a step leaves them, and the gradients that its optimizers get.

Both are read from the parameters themselves, so it does not matter which optimizer changes them, or whether the program
does that by hand. A parameter that is sharded is read as this process holds it. The records stand in the header of
dump.json. They cost a measurement of every parameter, so ``step_records`` of the configuration asks for them.

At level mix, where every call measures its parameters anyway, ``training_calls`` lists the calls that move the training
on, with the gradients that each step of an optimizer gets, and ``model_parameters`` every parameter at the end of the
step: ``msprobe check`` reads both; a comparison judges neither, and knows parameters by the second one.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Collection, Mapping
from typing import Any

from msprobe.core.backend.protocols import ModuleTap
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.call_record import HeaderItem, HeaderRecord
from msprobe.core.dump.record.error_boundary import never_raises
from msprobe.core.dump.record.step_recorder import StepRecorder
from msprobe.core.log import logger

PARAMETERS, GRADIENTS = "parameters", "gradients"
TRAINING_CALLS = "training_calls"


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
        self._follows = recorder.plan.training and modules is not None
        self._seen_optimizer = False
        self._items: dict[str, dict[str, Any]] = {}  # gradients that were measured for the same step of an optimizer

    @never_raises
    def optimizer_begins(self, number: int, names: Collection[str | None]) -> None:
        """Record the gradients of the parameters that the first step of an optimizer is about to change."""
        self._seen_optimizer = True
        if GRADIENTS in self._wanted:
            self._write_gradients(number, names)

    @never_raises
    def training_call(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Record a call that moves the training on, and how many records came before it."""
        if self._follows:
            item = {"call": kind, "after": self._recorder.record_count, **facts}
            self._recorder.sink.write(HeaderItem(TRAINING_CALLS, item))

    @never_raises
    def update_begins(self, number: int, names: Collection[str | None]) -> None:
        """Record the gradients that a step of an optimizer gets; those without one are named."""
        if not self._follows:
            return
        held = self._gradients_of(names) or []
        measured, self._items = self._items, {}
        gradients = [
            measured.get(name) or self._item(name, gradient) for name, gradient in held if gradient is not None
        ]
        item: dict[str, Any] = {"call": "optimizer_step", "after": self._recorder.record_count, "optimizer": number}
        if gradients:  # else the framework gives them to the step, and not to the parameters
            missing = [name for name, gradient in held if gradient is None]
            item.update(gradients=gradients, no_gradient=missing)
        self._recorder.sink.write(HeaderItem(TRAINING_CALLS, item))

    @never_raises
    def end_step(self) -> None:
        """Record the parameters; where no optimizer was seen, also the gradients that are still there."""
        if GRADIENTS in self._wanted and not self._seen_optimizer:
            self._write_gradients(None, None)
        parameters = self._parameters() if PARAMETERS in self._wanted or self._follows else []
        nodes = [self._item(name, parameter) for name, parameter in parameters]
        if PARAMETERS in self._wanted:
            self._recorder.sink.write(HeaderRecord(parameters_after_step=nodes))
        if self._follows:
            workers = sum(child.daemon for child in multiprocessing.active_children())
            if workers:
                self.training_call("child_processes", {"count": workers})
            gradients = self._gradients_of(None)
            present = [None] * len(nodes) if gradients is None else [gradient is not None for _, gradient in gradients]
            self._recorder.sink.write(
                HeaderRecord(
                    model_parameters=[{**node, "has_gradient": has} for node, has in zip(nodes, present, strict=True)]
                )
            )

    def _write_gradients(self, number: int | None, names: Collection[str | None] | None) -> None:
        gradients = self._gradients_of(names)
        if gradients is None:
            logger.warning(
                "gradients_of_step is missing: another thread computes gradients, which must not be read meanwhile"
            )
            return
        listed = [self._item(name, gradient) for name, gradient in gradients if gradient is not None]
        self._recorder.sink.write(HeaderItem("gradients_of_step", {"optimizer": number, "gradients": listed}))
        self._items = {item["name"]: item for item in listed} if self._follows else {}

    def _parameters(self) -> list[tuple[str, Any]]:
        return [] if self._modules is None else self._modules.named_parameters()

    def _gradients_of(self, names: Collection[str | None] | None) -> list[tuple[str, Any]] | None:
        """Return name and gradient of the parameters of the optimizer that steps now; without ``names`` of all.

        The result is None where they cannot be read, because another thread computes them.
        """
        wanted = [(name, value) for name, value in self._parameters() if names is None or name in names]
        if self._modules is None:
            return []
        found = self._modules.gradients([value for _, value in wanted], used_now=names is not None)
        return None if found is None else [(name, one) for (name, _), one in zip(wanted, found, strict=True)]

    def _item(self, name: str, tensor: Any) -> dict[str, Any]:
        with self._thread.quiet():
            return {"name": name, "value": self._recorder.describer.node(tensor, "")}
