"""Hooks on parameters and optimizers: gradients as they arrive, steps as they begin and end, and the moments."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from msprobe.adapters.pytorch.step_closures import with_closure
from msprobe.monitor.watch import OptimizerReports, Remove

_MOMENTS = ("exp_avg", "exp_avg_sq")


def watch_gradients(parameters: Mapping[str, torch.Tensor], report: Callable[[str, Any], None]) -> Remove:
    """Report the gradient of each parameter when it has been added to it, before ranks are added up."""
    handles = [
        one.register_post_accumulate_grad_hook(functools.partial(_report_gradient, report, name))
        for name, one in parameters.items()
        if one.requires_grad and one.is_leaf
    ]

    def remove() -> None:
        while handles:
            handles.pop().remove()

    return remove


def _report_gradient(report: Callable[[str, Any], None], name: str, parameter: torch.Tensor) -> None:
    report(name, parameter.grad)


class StepHooks:
    """Torch's hooks before and after the step of an optimizer.

    A hook must not be removed while torch goes through those of its kind: it would raise in the step of the program.
    So the one that runs does nothing from then on, and goes when ``remove`` is called again outside of a step.
    """

    def __init__(self, reports: OptimizerReports) -> None:
        self._reports = reports
        self._handles: dict[str, Any] = {}
        self._running = ""
        self._removed = False

    def attach(self, register_before: Callable[..., Any], register_after: Callable[..., Any]) -> Remove:
        """Register both hooks, and return what takes them away."""
        self._handles = {"before": register_before(self._before), "after": register_after(self._after)}
        return self.remove

    def remove(self) -> None:
        """Take the hooks away, or all but the one that runs."""
        self._removed = True
        for phase in [phase for phase in self._handles if phase != self._running]:
            self._handles.pop(phase).remove()

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Report at once, or where the step gets a closure, which computes the gradients, when that has run first."""
        given = None if self._removed else with_closure(args, kwargs, lambda one: self._reported(one, optimizer))
        if given is None:
            self._call("before", self._reports.before_step, optimizer)
        return given

    def _reported(self, closure: Callable[..., Any], optimizer: Any) -> Callable[..., Any]:
        waits = True

        @functools.wraps(closure)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal waits
            result = closure(*args, **kwargs)
            if waits:
                waits = False
                self._call("before", self._reports.before_step, optimizer)
            return result

        return call

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._call("after", self._reports.after_step, optimizer)

    def _call(self, phase: str, report: Callable[[Any], None], optimizer: Any) -> None:
        if self._removed:
            return
        outer, self._running = self._running, phase
        try:
            report(optimizer)
        finally:
            self._running = outer


def watch_optimizer(optimizer: Any | None, reports: OptimizerReports) -> Remove:
    """Report the steps of an optimizer; None stands for every optimizer of the process.

    One that has no hooks of torch, as the wrappers of other libraries, gets a ``step`` of its own meanwhile.
    """
    if optimizer is None:
        optimizers = sys.modules["torch.optim.optimizer"]  # torch.optim hides its submodule behind a function
        register = optimizers.register_optimizer_step_pre_hook, optimizers.register_optimizer_step_post_hook
        return StepHooks(reports).attach(*register)
    if _has_hooks(optimizer):
        return StepHooks(reports).attach(optimizer.register_step_pre_hook, optimizer.register_step_post_hook)
    return _watch_wrapper(optimizer, reports)


def _has_hooks(optimizer: Any) -> bool:
    """Return whether torch's hooks work: a wrapper may be an ``Optimizer`` that was never initialised (accelerate)."""
    return isinstance(optimizer, torch.optim.Optimizer) and hasattr(optimizer, "_optimizer_step_pre_hooks")


def _watch_wrapper(optimizer: Any, reports: OptimizerReports) -> Remove:
    original, own = optimizer.step, vars(optimizer).get("step")
    removed = False

    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        if removed:  # and the program has wrapped it since
            return original(*args, **kwargs)
        reports.before_step(optimizer)
        result = original(*args, **kwargs)
        reports.after_step(optimizer)
        return result

    optimizer.step = step

    def remove() -> None:
        nonlocal removed
        removed = True
        if vars(optimizer).get("step") is not step:
            return
        if own is None:
            del optimizer.step
        else:
            optimizer.step = own

    return remove


def held_by(optimizer: Any) -> frozenset[int] | None:
    """Return the ids of the parameters of an optimizer of torch; None for a wrapper, which may hold copies."""
    if not _has_hooks(optimizer):
        return None
    return frozenset(id(one) for group in optimizer.param_groups for one in group["params"])


def gradient_of(parameter: Any) -> Any | None:
    """Return the gradient that an optimizer uses: Megatron's ``main_grad`` where there is one."""
    main = getattr(parameter, "main_grad", None)
    return parameter.grad if main is None else main


def moments_of(optimizer: Any, parameter: Any) -> Mapping[str, Any]:
    """Return the moments that an optimizer, or one that it wraps, keeps for a parameter."""
    state = _state_of(optimizer, parameter)
    return {name: state[name] for name in _MOMENTS if isinstance(state.get(name), torch.Tensor)}


def _state_of(optimizer: Any, parameter: Any) -> Mapping[str, Any]:
    for one in _with_inner(optimizer):
        state = getattr(one, "state", None)
        for key in (parameter, getattr(parameter, "main_param", None)):
            if isinstance(state, Mapping) and key is not None and key in state:
                return state[key]
    return {}


def _with_inner(optimizer: Any) -> list[Any]:
    """Return an optimizer, and those inside of a wrapper (``optimizer``, ``chained_optimizers``)."""
    found = [optimizer]
    inner = [getattr(optimizer, "optimizer", None), *getattr(optimizer, "chained_optimizers", ())]
    for one in inner:
        if one is not None and one is not optimizer:
            found += _with_inner(one)
    return found


class ParameterGroups:
    """Finds the group of a parameter in its optimizer, without a walk through all groups for each parameter."""

    def __init__(self) -> None:
        self._state: list[tuple[int, ...]] = []
        self._groups: dict[int, Mapping[str, Any]] = {}

    def of(self, optimizer: Any, parameter: Any) -> Mapping[str, Any] | None:
        """Return the group; None where the optimizer does not hold the parameter."""
        groups = [group for one in _with_inner(optimizer) for group in getattr(one, "param_groups", ())]
        state = [(id(group), len(group["params"]), *map(id, group["params"][:1])) for group in groups]
        if state != self._state:  # another optimizer, or one with other parameters
            self._state = state
            self._groups = {id(one): group for group in reversed(groups) for one in group["params"]}
        return self._groups.get(id(parameter))


def adam_update(
    optimizer: Any, parameter: Any, group: Mapping[str, Any] | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return what the last step of Adam took from a parameter without weight decay, and the ratio of its moments.

    ratio = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), update = lr * ratio (D. Kingma, J. Ba, "Adam", 2015).

    Args:
        optimizer: the optimizer.
        parameter: the parameter.
        group: the group of the parameter in it.
    """
    state = _state_of(optimizer, parameter)
    moments = moments_of(optimizer, parameter)
    if group is None or len(moments) < len(_MOMENTS) or "betas" not in group or _has_other_formula(optimizer):
        return None
    steps = float(state.get("step", group.get("step", 0)) or 0)
    if steps < 1:
        return None
    with torch.no_grad():
        first = moments["exp_avg"] / (1 - group["betas"][0] ** steps)
        second = state.get("max_exp_avg_sq", moments["exp_avg_sq"]) / (1 - group["betas"][1] ** steps)
        ratio = first / (second.sqrt() + group.get("eps", 1e-8))
        return ratio * group["lr"], ratio


def _has_other_formula(optimizer: Any) -> bool:
    return any(isinstance(one, (torch.optim.NAdam, torch.optim.RAdam)) for one in _with_inner(optimizer))


def agreement(gradient: torch.Tensor, moment: torch.Tensor | None) -> torch.Tensor:
    """Return the share of elements of equal sign, as a tensor without dimensions; 1 without a moment."""
    with torch.no_grad():
        if moment is None:
            return torch.ones((), device=gradient.device)
        return (torch.sign(gradient) == torch.sign(moment)).to(torch.float32).mean()
