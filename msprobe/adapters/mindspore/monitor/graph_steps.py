"""Static graphs: the gradients that an optimizer gets are sent out of the graph while it runs.

Before the graph is compiled, ``construct`` of the optimizer is replaced by one that sends each gradient and then does
what it did. On a CPU the graph calls Python (``compile/value_transport.py``). A gradient that cannot be sent, of
bfloat16 without a dimension or without elements, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import ops

from msprobe.adapters.mindspore.compile.compiled_probes import flat, sendable
from msprobe.adapters.mindspore.compile.value_transport import make_sender
from msprobe.adapters.mindspore.monitor.parameter_watch import OptimizerSteps, parameters_of
from msprobe.adapters.mindspore.runtime_facts import graph_compiled, settle
from msprobe.adapters.mindspore.tensors.values import GraphValue
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.log import logger
from msprobe.monitor.watch import OptimizerReports, Remove


class GraphSteps:
    """Reports the steps of one optimizer that is compiled into a graph (implements ``GraphReader``).

    Args:
        optimizer: the optimizer.
        steps: is told the gradients of each step.
        reports: takes the steps.
    """

    def __init__(self, optimizer: Any, steps: OptimizerSteps, reports: OptimizerReports) -> None:
        self.errors = ErrorLog(None)
        self._optimizer = optimizer
        self._steps = steps
        self._reports = reports
        self._parameters = list(parameters_of(optimizer) or ())
        self._arrived: dict[int, GraphValue] = {}
        self._sender = make_sender(self)
        self._ended = False

    def attach(self) -> Remove:
        """Send the gradients from the next graph on that is compiled; the returned function ends that."""
        if graph_compiled():
            logger.warning(
                "a graph has been compiled before monitor(optimizer): if it holds the optimizer, no step is seen"
            )
        own = vars(self._optimizer)
        before = own.get("construct")
        own["construct"] = self._tapped().__get__(self._optimizer, type(self._optimizer))

        def remove() -> None:
            if self._ended:
                return
            settle()
            self._sender.settle()
            self._end_step()
            self._ended = True
            if before is None:
                own.pop("construct", None)
            else:
                own["construct"] = before

        return remove

    def _tapped(self) -> Callable[..., Any]:
        original, send = self._optimizer.construct, self._sender.send
        places = tuple(self._sender.place(number) for number in range(len(self._parameters)))
        call = self._sender.place(0)

        def construct(self: Any, gradients: Any) -> Any:
            passed = ()
            for position in range(len(gradients)):
                gradient = gradients[position]
                if sendable(gradient):
                    sent = send(flat(ops.stop_gradient(gradient)), places[position], call)
                    gradient = ops.depend(gradient, sent)
                passed = passed + (gradient,)  # type: ignore[assignment]  # noqa: RUF005
            return original(passed)

        return construct

    # ---- called by the graph while it runs, in the thread that runs it ----

    def began(self, site: int) -> int:
        """Return the number of no call: gradients are told apart by their places."""
        return 0

    @never_raises
    def arrived(self, array: Any, place: int, call: int) -> None:
        """Take a gradient; a step is over when all have arrived, or one of the next step arrives."""
        if self._ended:
            return
        if place in self._arrived:
            self._end_step()
        self._arrived[place] = GraphValue(array, not self._parameters[place].shape).copy()
        if len(self._arrived) == len(self._parameters):
            self._end_step()

    def ended(self, call: int) -> None:
        """Do nothing: no call begins."""

    def _end_step(self) -> None:
        arrived, self._arrived = self._arrived, {}
        if arrived:
            self._steps.gradients = {id(self._parameters[place]): value for place, value in arrived.items()}
            self._reports.before_step(self._optimizer)
            self._steps.end()
            self._reports.after_step(self._optimizer)
