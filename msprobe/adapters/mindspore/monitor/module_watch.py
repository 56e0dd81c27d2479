"""The calls of cells: their inputs and outputs, and the gradients of both.

As in collection ``__call__`` of the class of cells is replaced while they are watched, so that no cell is changed, and
gradients are observed at the nodes of autograd that the call made: nothing is put into the graph. Calls without a
gradient of cells that are not set to training are not reported. Nor are calls that ``Cell.recompute`` repeats: only
the gradients of the cells inside, which flow through the repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from mindspore import Tensor, nn

from msprobe.adapters.mindspore.runtime_facts import recomputing
from msprobe.adapters.mindspore.taps.gradient_tap import make_gradient_tap
from msprobe.adapters.mindspore.versions import native_executor
from msprobe.core.capture.containers import tensors_in
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import wrap_module_call
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.monitor.calls.call_gradients import CallGradients
from msprobe.monitor.unrecorded import unrecorded
from msprobe.monitor.watch import ModuleReports, Remove

_grad_flag = native_executor().grad_flag


class _Watched(NamedTuple):
    name: str
    cell: Any


class _Call(NamedTuple):
    """A call that has begun.

    Attributes:
        watched: its cell.
        given: its arguments.
        prepared: where the gradients of its inputs will flow; None where they are not watched.
        again: whether it repeats a call of the forward pass.
    """

    watched: _Watched
    given: Any
    prepared: Any
    again: bool


class ModuleHooks:
    """The observer of a set of cells, or of the modules of a package over MindSpore.

    Args:
        reports: takes what they are called with.
        backward: whether gradients are observed.
        kind: the class of all modules.
    """

    def __init__(self, reports: ModuleReports, backward: bool, kind: Any = nn.Cell) -> None:
        self.errors = ErrorLog(None)
        self._reports = reports
        self._backward = backward
        self._kind = kind
        self._current = CurrentObserver()
        self._thread = ThreadState()
        self._gradients = make_gradient_tap(self._thread)
        self._watched: dict[int, _Watched] = {}

    def attach(self, modules: Mapping[str, Any]) -> Remove:
        """Watch these modules, by their names."""
        for name, cell in modules.items():
            self._watched.setdefault(id(cell), _Watched(name, cell))
        patches = Patches()
        wrapper = wrap_module_call(self._kind.__call__, self._find, self._current, self._thread)
        patches.plan(self._kind, "__call__", wrapper)
        self._current.observer = cast(Any, self)  # modules are all that is observed
        patches.apply()
        ended = False

        def remove() -> None:
            nonlocal ended
            self._current.observer = None
            if not ended:
                ended = True
                patches.undo()

        return remove

    def _find(self, cell: Any) -> _Watched | None:
        return self._watched.get(id(cell))

    @unrecorded
    def module_begin(self, site: _Watched, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
        """Note where the gradients of the inputs will flow."""
        wanted = self._backward and self._reports.measures
        prepared = self._gradients.prepare(args, kwargs) if wanted else None
        return _Call(site, (args, kwargs), prepared, recomputing())

    @unrecorded
    def module_end(self, token: _Call, result: Any) -> None:
        """Report a call that has ended, and observe its gradients."""
        if not self._reports.measures:
            return
        outputs = list(tensors_in(result, Tensor))
        name, cell = token.watched
        if not token.again:
            if not (getattr(cell, "training", False) or _grad_flag() or any(_has_gradient(one) for one in outputs)):
                return
            self._reports.forward(name, "input", list(tensors_in(token.given, Tensor)))
            self._reports.forward(name, "output", outputs)
        if token.prepared is not None:
            template = self._gradients.template(token.prepared)
            self._gradients.attach(token.prepared, result, CallGradients(self._reports, name, template, len(outputs)))

    def module_fail(self, token: _Call, error: BaseException) -> None:
        """Leave out a call that raised."""


def _has_gradient(tensor: Any) -> bool:
    """Return whether a function that is differentiated has just returned the tensor; False before MindSpore 2.8."""
    return bool(getattr(tensor, "_requires_grad", False))
