"""``TorchWatch``: all hooks of PyTorch together, as the monitor asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.compiled_models import inner_model, is_compiled
from msprobe.adapters.pytorch.monitor import feature_watch, parameter_watch
from msprobe.adapters.pytorch.monitor.gradient_facts import gradient_facts
from msprobe.adapters.pytorch.monitor.meter import TorchMeter
from msprobe.adapters.pytorch.monitor.module_watch import ModuleHooks
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.core.config.sections import GradProbeSection
from msprobe.core.log import logger
from msprobe.monitor.grad_probe.files import GradientFacts
from msprobe.monitor.watch import CollectiveReports, FeatureReports, ModuleReports, OptimizerReports, Remove

_MOST_NAMES = 5


class TorchWatch:
    """Implements ``TrainingWatch``."""

    def __init__(self) -> None:
        self._groups = parameter_watch.ParameterGroups()

    def meter(self, eps: float, rounded: bool) -> TorchMeter:
        return TorchMeter(eps, rounded)

    def rank(self) -> int:
        return TorchRuntime().rank() or 0

    def modules(self, model: Any) -> Iterable[tuple[str, nn.Module]]:
        inner = _checked(model)
        if inner is not model:
            _tell_compiled({"": model})
        return inner.named_modules()

    def parameters(self, model: Any) -> Iterable[tuple[str, torch.Tensor]]:
        return ((name, one) for name, one in _checked(model).named_parameters() if one.requires_grad)

    def held_by(self, optimizer: Any) -> frozenset[int] | None:
        return parameter_watch.held_by(optimizer)

    def gradient(self, parameter: Any) -> Any | None:
        return parameter_watch.gradient_of(parameter)

    def gradient_facts(self, name: str, gradient: Any, section: GradProbeSection) -> GradientFacts:
        return gradient_facts(name, gradient, section)

    def moments(self, optimizer: Any, parameter: Any) -> Mapping[str, Any]:
        return parameter_watch.moments_of(optimizer, parameter)

    def adam_update(self, optimizer: Any, parameter: Any) -> tuple[Any, Any] | None:
        return parameter_watch.adam_update(optimizer, parameter, self._groups.of(optimizer, parameter))

    def agreement(self, gradient: Any, moment: Any | None) -> Any:
        return parameter_watch.agreement(gradient, moment)

    def watch_modules(self, modules: Mapping[str, Any], reports: ModuleReports, backward: bool) -> Remove:
        _tell_compiled(modules)
        return ModuleHooks(reports, backward).attach(modules)

    def watch_gradients(self, parameters: Mapping[str, Any], report: Callable[[str, Any], None]) -> Remove:
        return parameter_watch.watch_gradients(parameters, report)

    def watch_optimizer(self, optimizer: Any | None, reports: OptimizerReports) -> Remove:
        return parameter_watch.watch_optimizer(optimizer, reports)

    def watch_features(
        self, kind: str, modules: Mapping[str, Any], axes: str, reports: FeatureReports
    ) -> tuple[Remove, Sequence[str]]:
        return feature_watch.watch_features(kind, modules, axes, reports)

    def watch_collectives(self, reports: CollectiveReports) -> Remove:
        if not torch.distributed.is_available():
            return lambda: None
        from msprobe.adapters.pytorch.monitor.collective_watch import watch_collectives

        return watch_collectives(reports)


def make_watch() -> TorchWatch:
    """Return the hooks of PyTorch."""
    return TorchWatch()


def _checked(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model is a torch.nn.Module, or a list of them, got {type(model).__name__}")
    return inner_model(model)


def _tell_compiled(modules: Mapping[str, nn.Module]) -> None:
    """Say which modules run in compiled code, where their hooks are not called."""
    compiled = [name or "the model" for name, one in modules.items() if is_compiled(one) or _compiles_its_call(one)]
    if compiled:
        logger.warning(
            "monitor: %s: compiled, so values of the modules inside are not watched; parameters and gradients are",
            ", ".join(compiled[:_MOST_NAMES]),
        )


def _compiles_its_call(module: nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None
