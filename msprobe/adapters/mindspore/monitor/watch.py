"""``MindSporeWatch``: all hooks of MindSpore together, as the monitor asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mindspore import nn

from msprobe.adapters.mindspore.launch_mode import launch_at_once, launches_late
from msprobe.adapters.mindspore.monitor import parameter_watch
from msprobe.adapters.mindspore.monitor.collective_watch import watch_collectives
from msprobe.adapters.mindspore.monitor.gradient_facts import gradient_facts
from msprobe.adapters.mindspore.monitor.graph_steps import GraphSteps
from msprobe.adapters.mindspore.monitor.meter import MindSporeMeter
from msprobe.adapters.mindspore.monitor.module_watch import ModuleHooks
from msprobe.adapters.mindspore.monitor.parameter_watch import OPTIMIZERS, OptimizerSteps, parameters_of
from msprobe.adapters.mindspore.runtime import MindSporeRuntime
from msprobe.adapters.mindspore.runtime_facts import in_graph_mode, is_recompute_cell
from msprobe.adapters.mindspore.taps.parameter_names import ParameterNames, own_parameters
from msprobe.adapters.mindspore.versions import require
from msprobe.core.config.sections import GradProbeSection
from msprobe.core.errors import MsprobeException
from msprobe.monitor.grad_probe.files import GradientFacts
from msprobe.monitor.watch import CollectiveReports, ModuleReports, OptimizerReports, Remove


class MindSporeWatch:
    """Implements ``TrainingWatch`` for dynamic graphs; in static ones the gradients of one optimizer are seen."""

    def __init__(self) -> None:
        self.steps = OptimizerSteps()
        self._optimizer: Any = None

    def meter(self, eps: float, rounded: bool) -> MindSporeMeter:
        return MindSporeMeter(eps, rounded)

    def rank(self) -> int:
        return MindSporeRuntime().rank() or 0

    def modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        cells = _checked(model).cells_and_names()
        return [
            (name, cell) for name, cell in cells if not is_recompute_cell(cell) and not isinstance(cell, OPTIMIZERS)
        ]

    def parameters(self, model: Any) -> Iterable[tuple[str, Any]]:
        """Yield the parameters of a cell, or of an optimizer, which has the names that MindSpore gave them."""
        if isinstance(model, OPTIMIZERS):
            self._optimizer = model
            return [(str(one.name), one) for one in parameters_of(model) or ()]
        return trained(_checked(model))

    def held_by(self, optimizer: Any) -> frozenset[int] | None:
        held = parameters_of(optimizer)
        return None if held is None else frozenset(map(id, held))

    def gradient(self, parameter: Any) -> Any | None:
        return self.steps.gradients.get(id(parameter))

    def gradient_facts(self, name: str, gradient: Any, section: GradProbeSection) -> GradientFacts:
        return gradient_facts(name, gradient, section)

    def moments(self, optimizer: Any, parameter: Any) -> Mapping[str, Any]:
        return self.steps.moments(optimizer, parameter)

    def adam_update(self, optimizer: Any, parameter: Any) -> tuple[Any, Any] | None:
        return self.steps.adam_update(optimizer, parameter)

    def agreement(self, gradient: Any, moment: Any | None) -> Any:
        return parameter_watch.agreement(gradient, moment)

    def watch_modules(self, modules: Mapping[str, Any], reports: ModuleReports, backward: bool) -> Remove:
        return ModuleHooks(reports, backward).attach(modules)

    def watch_gradients(self, parameters: Mapping[str, Any], report: Callable[[str, Any], None]) -> Remove:
        return parameter_watch.watch_gradients(parameters, report)

    def watch_optimizer(self, optimizer: Any | None, reports: OptimizerReports) -> Remove:
        if in_graph_mode():  # ``parameters`` has refused everything else
            return GraphSteps(self._optimizer, self.steps, reports).attach()
        return self.steps.watch(OPTIMIZERS if optimizer is None else (type(optimizer),), optimizer, reports)

    def watch_collectives(self, reports: CollectiveReports) -> Remove:
        return watch_collectives(reports)


def make_watch() -> MindSporeWatch:
    """Return the hooks of MindSpore; operators are launched at once from now on, where the host measures.

    Raises:
        ImportError: MindSpore is not installed, or too old.
    """
    require()
    if launches_late():
        launch_at_once()
    return MindSporeWatch()


def trained(model: Any) -> list[tuple[str, Any]]:
    """Return the parameters of a model that need a gradient, by their paths in it, without those of optimizers."""
    names = ParameterNames()
    names.add("Cell", model)
    cells = (cell for _, cell in model.cells_and_names()) if isinstance(model, nn.Cell) else ()
    optimizers = [cell for cell in cells if isinstance(cell, OPTIMIZERS)]
    kept = {id(one) for cell in optimizers for _, one in own_parameters(cell)}
    kept -= {id(one) for cell in optimizers for one in parameters_of(cell) or ()}
    return [(name, one) for name, one in names.once() if one.requires_grad and id(one) not in kept]


def _checked(model: Any) -> Any:
    if not isinstance(model, nn.Cell):
        raise TypeError(f"the model is a mindspore.nn.Cell, or a list of them, got {type(model).__name__}")
    if in_graph_mode():
        raise MsprobeException(
            0,
            "MindSpore is in GRAPH_MODE, where PrecisionDebugger.monitor(optimizer) sees gradients and nothing else is "
            "watched: use a dynamic graph, mindspore.set_context(mode=mindspore.PYNATIVE_MODE)",
        )
    return model
