"""``MSAdapterWatch``: the hooks for modules, optimizers and collectives of a torch-shaped namespace over MindSpore.

An optimizer gets its gradients as arguments of ``step``, or finds them in ``grad`` of its parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import mindspore

from msprobe.adapters.mindspore.monitor.collective_watch import watch_collectives
from msprobe.adapters.mindspore.monitor.module_watch import ModuleHooks
from msprobe.adapters.mindspore.monitor.parameter_watch import corrected, group_of
from msprobe.adapters.mindspore.monitor.watch import MindSporeWatch, trained
from msprobe.adapters.mindspore.monitor.watch import make_watch as make_mindspore_watch
from msprobe.adapters.msadapter.detection import torch_of_msadapter
from msprobe.adapters.msadapter.runtime import MSAdapterRuntime
from msprobe.adapters.msadapter.taps.module_tap import named_modules
from msprobe.adapters.msadapter.taps.optimizer_tap import optimizer_kinds
from msprobe.monitor.watch import CollectiveReports, ModuleReports, OptimizerReports, Remove

_MOMENTS = ("exp_avg", "exp_avg_sq")
_HOOKS = "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"


class MSAdapterWatch(MindSporeWatch):
    """Implements ``TrainingWatch``.

    Args:
        torch: the torch-shaped namespace.
    """

    def __init__(self, torch: ModuleType) -> None:
        super().__init__()
        self._torch = torch

    def rank(self) -> int:
        return MSAdapterRuntime(self._torch).rank() or 0

    def modules(self, model: Any) -> Iterable[tuple[str, Any]]:
        return named_modules(self._checked(model))

    def parameters(self, model: Any) -> Iterable[tuple[str, Any]]:
        return trained(self._checked(model))

    def gradient(self, parameter: Any) -> Any | None:
        given = super().gradient(parameter)
        for name in ("main_grad", "grad"):
            given = getattr(parameter, name, None) if given is None else given
        return given

    def moments(self, optimizer: Any, parameter: Any) -> Mapping[str, Any]:
        state = getattr(optimizer, "state", None)
        kept = state.get(parameter, {}) if isinstance(state, Mapping) else {}
        return {name: kept[name] for name in _MOMENTS if isinstance(kept.get(name), mindspore.Tensor)}

    def adam_update(self, optimizer: Any, parameter: Any) -> tuple[Any, Any] | None:
        state = getattr(optimizer, "state", None)
        steps = state[parameter].get("step", 0) if isinstance(state, Mapping) and parameter in state else 0
        return corrected(self.moments(optimizer, parameter), group_of(optimizer, parameter), steps)

    def watch_modules(self, modules: Mapping[str, Any], reports: ModuleReports, backward: bool) -> Remove:
        return ModuleHooks(reports, backward, self._torch.nn.Module).attach(modules)

    def watch_optimizer(self, optimizer: Any | None, reports: OptimizerReports) -> Remove:
        module = sys.modules.get(f"{self._torch.__name__}.optim.optimizer")
        if all(hasattr(module, name) for name in _HOOKS):
            return self._watch_by_hooks(module, optimizer, reports)
        kinds = optimizer_kinds(self._torch) if optimizer is None else (type(optimizer),)
        return self.steps.watch(kinds, optimizer, reports, method="step")

    def _watch_by_hooks(self, module: Any, chosen: Any | None, reports: OptimizerReports) -> Remove:
        """Report the steps by global hooks of a package that has them; they see steps that a scheduler has wrapped."""

        removed = running = False

        def before(optimizer: Any, args: tuple[Any, ...], kwargs: Any) -> None:
            if not removed and (chosen is None or optimizer is chosen):
                self.steps.begin(optimizer, next(iter(args), ()))
                reports.before_step(optimizer)

        def after(optimizer: Any, args: tuple[Any, ...], kwargs: Any) -> None:
            nonlocal running
            if not removed and (chosen is None or optimizer is chosen):
                running = True
                self.steps.done(optimizer)
                reports.after_step(optimizer)
                self.steps.end()
                running = False

        handles = [getattr(module, name)(hook) for name, hook in zip(_HOOKS, (before, after), strict=True)]

        def remove() -> None:
            nonlocal removed
            removed = True
            while handles and not running:  # the package goes through its hooks: they go when this is called again
                handles.pop().remove()

        return remove

    def watch_collectives(self, reports: CollectiveReports) -> Remove:
        return watch_collectives(reports, [getattr(self._torch, "distributed", None)])

    def _checked(self, model: Any) -> Any:
        if not isinstance(model, self._torch.nn.Module):
            raise TypeError(
                f"the model is a torch.nn.Module of MSAdapter, or a list of them, got {type(model).__name__}"
            )
        return model


def make_watch() -> MindSporeWatch:
    """Return the hooks of MSAdapter where the program has imported it, else those of MindSpore.

    Raises:
        ImportError: MindSpore is not installed, or too old.
    """
    torch = torch_of_msadapter()
    return make_mindspore_watch() if torch is None else MSAdapterWatch(torch)
