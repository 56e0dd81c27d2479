"""Observe calls of cells by replacing ``nn.Cell.__call__`` while collecting.

It is one patch instead of hooks on every cell: it sees keyword arguments and exceptions, changes no cell, and the
user's hooks run inside it as before.

``Cell.recompute()`` adds cells of MindSpore to the model. They have no record. The added cell that runs a cell a second
time, during backward, is recorded under the name of that cell.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mindspore import nn

from msprobe.adapters.mindspore.runtime_facts import (
    in_graph_mode,
    is_recompute_cell,
    opening,
    reopens,
    second_runner,
)
from msprobe.adapters.mindspore.taps.parameter_names import ParameterNames, own_parameters
from msprobe.adapters.mindspore.taps.tensor_hooks import ParameterHook, ParameterHooks
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.capture.wrap import module_call_in_place, wrap_module_call
from msprobe.core.dump.record.module_names import Entry, ModuleNames, NamedModule, add_entry
from msprobe.core.dump.session.debugger import models_with_prefixes
from msprobe.core.errors import MsprobeException

_NOTHING = contextlib.nullcontext()


class MindSporeModuleTap:
    """Implements ``ModuleTap``. The models themselves have no name and no record; their cells have.

    Attributes:
        parameter_names: the names of the parameters of the adopted models.
    """

    def __init__(self, current: CurrentObserver, thread: ThreadState) -> None:
        self.parameter_names = ParameterNames()
        self._current = current
        self._thread = thread
        self._sites = ModuleNames()
        self._again: dict[int, Entry] = {}  # cells that run an adopted one again
        self._models: list[weakref.ref[nn.Cell]] = []
        self._observed: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._hooks = ParameterHooks()

    def adopt(self, model: Any) -> None:
        for head, part in models_with_prefixes(model, nn.Cell, "mindspore.nn.Cell", "Cell"):
            self._adopt(head, part)

    def cells(self) -> list[nn.Cell]:
        """Return every cell of the adopted models that still lives; the models themselves come first."""
        present = [reference() for reference in (*self._models, *(entry[0] for entry in self._sites.items()))]
        return [cell for cell in present if cell is not None]

    def named_cells(self) -> Sequence[Entry]:
        """Return the adopted cells with their names, in the order of the cell tree."""
        return self._sites.items()

    def models(self) -> list[nn.Cell]:
        """Return the adopted models that still live."""
        return [model for reference in self._models if (model := reference()) is not None]

    def stem(self, cell: Any) -> str | None:
        """Return the name of an adopted or recomputed cell without phase and number, such as ``Cell.fc1.Dense``."""
        entry = self._sites.by_id.get(id(cell)) or (self._again.get(id(cell)) if reopens(cell) else None)
        return entry[1].stem if entry is not None and entry[0]() is cell else None

    def focus(self, module: Any, name: Any) -> None:
        raise MsprobeException(3, "module_dump is a function of msprobe.pytorch")

    def focus_end(self) -> None:
        """Do nothing: no module can be focused."""

    def reset(self) -> None:
        self._sites.reset()

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        patches = Patches()
        if not in_graph_mode():
            observed = module_call_in_place(nn.Cell, self._observed, self._observed_call, self._current)
            patches.plan(nn.Cell, "__call__", observed)
        with patches.in_force():
            yield

    def shared_parameters(self) -> list[list[str]]:
        return self.parameter_names.shared()

    def named_parameters(self) -> list[tuple[str, Any]]:
        return list(self.parameter_names.once())

    def gradients(self, parameters: Sequence[Any], used_now: bool) -> list[Any] | None:
        """Return None for each: gradients are results of functions in MindSpore, and no part of a parameter."""
        return [None] * len(parameters)

    def attach_gradients(self) -> Callable[[], None]:
        if in_graph_mode():
            return lambda: None  # the graph's own taps see them
        hooks = [
            ParameterHook(parameter, self._thread, self._gradient_reporter(site, key))
            for _, site in self._sites.items()
            for key, parameter in site.parameters()
            if getattr(parameter, "requires_grad", True)
        ]
        return self._hooks.attach(hooks)

    def without_gradient_hooks(self) -> contextlib.AbstractContextManager[None]:
        """Take the hooks off the parameters inside the returned context: the graph compiler would read them too."""
        return self._hooks.taken_off()

    def _adopt(self, head: str, model: nn.Cell) -> None:
        self.parameter_names.add(head, model)
        if not any(reference() is model for reference in self._models):
            self._models.append(weakref.ref(model))
        for path, cell in model.cells_and_names():
            if not path or is_recompute_cell(cell) or self._sites.get(cell) is not None:
                continue
            site = self._sites.register(f"{head}.{path}.{type(cell).__name__}", cell, own_parameters)
            runner = second_runner(cell)
            if runner is not None:
                add_entry(self._again, runner, site)

    def _observed_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        sites, again, current = self._sites.by_id, self._again, self._current

        def find_site(cell: nn.Cell) -> NamedModule | None:
            if current.module_call is not original:
                return None
            entry = sites.get(id(cell)) or (again.get(id(cell)) if reopens(cell) else None)
            return entry[1] if entry is not None and entry[0]() is cell else None

        return wrap_module_call(original, find_site, self._current, self._thread, around_begin=_around_begin)

    def _gradient_reporter(self, site: NamedModule, key: str) -> Callable[[Any], None]:
        """Return what records the gradient of the parameter ``key`` of a cell."""

        def report(gradient: Any) -> None:
            observer = self._current.late_observer
            if observer is not None:
                observer.parameter_gradient(site, key, gradient)

        return report


def _around_begin(cell: nn.Cell) -> contextlib.AbstractContextManager[None]:
    return opening() if reopens(cell) else _NOTHING
