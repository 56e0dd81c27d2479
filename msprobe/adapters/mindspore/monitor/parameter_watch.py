"""Parameters and optimizers: gradients as they arrive, the steps with the gradients they are given, and the moments.

An optimizer of MindSpore is a cell, and a step of it a call with the gradients, in the order of its parameters. What it
keeps for them stands in tuples of the same order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mindspore
from mindspore import nn, ops
from mindspore.experimental.optim import Optimizer

from msprobe.adapters.mindspore.taps.tensor_hooks import ParameterHook, ParameterHooks
from msprobe.core.capture.patching import Patches
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.log import first_time, logger
from msprobe.monitor.watch import OptimizerReports, Remove

OPTIMIZERS = (nn.Optimizer, Optimizer)
"""The bases of all optimizers; those of ``mint.optim`` are of the second kind."""
_MOMENTS = (("exp_avg", "moment1", "moments1"), ("exp_avg_sq", "moment2", "moments2"))
_CORRECTED = ("Adam", "AdamOffload", "LazyAdam")


def watch_gradients(parameters: Mapping[str, Any], report: Callable[[str, Any], None]) -> Remove:
    """Report the gradient of each parameter that a backward pass has computed, before ranks are added up."""
    thread = ThreadState()
    return ParameterHooks().attach([
        ParameterHook(one, thread, functools.partial(report, name)) for name, one in parameters.items()
    ])


def parameters_of(optimizer: Any) -> Sequence[Any] | None:
    """Return the parameters of an optimizer in the order of the gradients that it takes; None where it has none."""
    held = getattr(optimizer, "parameters", None)
    if isinstance(held, (tuple, list)):
        return held
    groups = getattr(optimizer, "param_groups", None)
    return [one for group in groups for one in group["params"]] if isinstance(groups, list) else None


class OptimizerSteps:
    """The steps of optimizers, and what is known of the one that runs.

    Attributes:
        gradients: what the running step was given, by the id of the parameter.
    """

    def __init__(self) -> None:
        self.errors = ErrorLog(None)
        self.gradients: dict[int, Any] = {}
        self._positions: dict[int, int] = {}
        self._stepped: set[int] = set()
        self._running = False

    def watch(
        self, kinds: Sequence[type], optimizer: Any | None, reports: OptimizerReports, method: str = "__call__"
    ) -> Remove:
        """Report the steps of an optimizer; None stands for every one.

        Args:
            kinds: the classes of which the method is replaced.
            optimizer: the optimizer.
            reports: takes the steps.
            method: the method that makes a step.
        """
        patches = Patches()
        for kind in kinds:
            patches.plan(kind, method, self._observed(kind, method, optimizer, reports))
        patches.apply()

        def remove() -> None:
            if patches.applied and not self._stepped and first_time("no step of an optimizer"):
                logger.warning(
                    "monitor: no step of an optimizer was seen; steps inside of a function under ms.jit are not"
                )
            patches.undo()

        return remove

    def _observed(self, kind: type, method: str, chosen: Any | None, reports: OptimizerReports) -> Callable[..., Any]:
        own = vars(kind).get(method)

        @functools.wraps(own or getattr(kind, method))
        def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            # looked up now: another tap may have replaced what is inherited since
            original = getattr(super(kind, optimizer), method) if own is None else functools.partial(own, optimizer)
            if self._running or (chosen is not None and optimizer is not chosen):
                return original(*args, **kwargs)
            self._running = True
            try:
                self.begin(optimizer, next(iter((*args, *kwargs.values())), ()))
                reports.before_step(optimizer)
                result = original(*args, **kwargs)
                self.done(optimizer)
                reports.after_step(optimizer)
                return result
            finally:
                self._running = False
                self.end()

        return call

    @never_raises
    def begin(self, optimizer: Any, gradients: Any) -> None:
        """Note the gradients of the step that begins."""
        held = parameters_of(optimizer) or ()
        given = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
        self._positions = {id(one): position for position, one in enumerate(held)}
        pairs = zip(held, given, strict=False)
        self.gradients = {id(one): gradient for one, gradient in pairs if isinstance(gradient, mindspore.Tensor)}

    def done(self, optimizer: Any) -> None:
        """Note that the step has changed the parameters."""
        self._stepped.add(id(optimizer))

    def end(self) -> None:
        """Forget the step."""
        self.gradients, self._positions = {}, {}

    def moments(self, optimizer: Any, parameter: Any) -> Mapping[str, Any]:
        """Return the moments for a parameter; those that an optimizer has from its construction on are none."""
        position = self._positions.get(id(parameter))
        found: dict[str, Any] = {}
        if position is None:
            return found
        for name, *others in _MOMENTS:
            one = _kept(optimizer, (name, *others), position, parameter)
            if one is not None and (id(optimizer) in self._stepped or _holds_values(one)):
                found[name] = one
        return found

    def adam_update(self, optimizer: Any, parameter: Any) -> tuple[Any, Any] | None:
        """Return what the last step of Adam took from a parameter without weight decay, and that over the rate.

        Each class divides as it does itself. ``mindspore.nn``: sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps),
        ``AdamWeightDecay`` there: m / (sqrt(v) + eps), ``mindspore.experimental``: see ``corrected``.
        """
        moments, position = self.moments(optimizer, parameter), self._positions.get(id(parameter))
        if len(moments) < len(_MOMENTS) or position is None:
            return None
        if isinstance(optimizer, Optimizer):
            return corrected(moments, group_of(optimizer, parameter), getattr(optimizer, "state_step", 0))
        kind = next((one.__name__ for one in type(optimizer).__mro__ if one.__module__.startswith("mindspore.")), "")
        if kind not in (*_CORRECTED, "AdamWeightDecay") or getattr(optimizer, "use_nesterov", False):
            return None
        first, second = _in_float32(moments)
        ratio = first / (ops.sqrt(second) + _number(optimizer.eps))
        if kind in _CORRECTED:
            powers = _number(optimizer.beta1_power), _number(optimizer.beta2_power)
            ratio = ratio * ((1 - powers[1]) ** 0.5 / (1 - powers[0]))
        rates = optimizer.get_lr()
        rate = rates[position] if isinstance(rates, (tuple, list)) else rates
        return ratio * _number(rate), ratio


def _kept(optimizer: Any, names: Sequence[str], position: int, parameter: Any) -> Any | None:
    """Return what an optimizer, or one inside of it, keeps for a parameter under one of several names."""
    for one in (optimizer, *(getattr(optimizer, inner, None) for inner in ("opt", "optimizer"))):
        for name in names if isinstance(one, OPTIMIZERS) else ():
            if isinstance(one, nn.AdaMax) and name == "moment2":  # the largest gradient, no second moment
                continue
            kept = getattr(one, name, None)
            if isinstance(kept, (tuple, list)) and len(kept) > position:
                found = kept[position]
                return found if found.shape == parameter.shape else None  # a factor of it, as in AdaFactor
    return None


def _holds_values(moment: Any) -> bool:
    return bool(moment.asnumpy().any())


def corrected(moments: Mapping[str, Any], group: Mapping[str, Any], steps: Any) -> tuple[Any, Any] | None:
    """Return update and ratio of an Adam of PyTorch's form.

    ratio = m / (1 - beta1^t) / (sqrt(v) / sqrt(1 - beta2^t) + eps), update = lr * ratio (D. Kingma, J. Ba, "Adam",
    2015). None before the first step, or for an optimizer without ``betas``.

    Args:
        moments: m and v.
        group: the settings of the parameter: ``betas``, ``eps``, ``lr``.
        steps: t.
    """
    step = _number(steps)
    if step < 1 or "betas" not in group or len(moments) < len(_MOMENTS):
        return None
    first, second = _in_float32(moments)
    shares = [1 - _number(beta) ** step for beta in group["betas"]]
    ratio = first / shares[0] / (ops.sqrt(second) / shares[1] ** 0.5 + _number(group.get("eps", 1e-8)))
    return ratio * _number(group["lr"]), ratio


def group_of(optimizer: Any, parameter: Any) -> Mapping[str, Any]:
    """Return the settings of a parameter; empty where its optimizer has none."""
    groups = getattr(optimizer, "param_groups", ())
    return next((group for group in groups if any(one is parameter for one in group["params"])), {})


def _in_float32(moments: Mapping[str, Any]) -> list[Any]:
    return [ops.stop_gradient(one).astype(mindspore.float32) for one in moments.values()]


def _number(value: Any) -> float:
    return float(value.asnumpy().reshape(-1)[0]) if isinstance(value, mindspore.Tensor) else float(value)


def agreement(gradient: Any, moment: Any | None) -> Any:
    """Return the share of elements of equal sign, as a tensor without dimensions; 1 without a moment."""
    if moment is None:
        return mindspore.Tensor(1.0, mindspore.float32)
    first, second = (ops.sign(ops.stop_gradient(one).astype(mindspore.float32)) for one in (gradient, moment))
    return ops.ReduceMean()((first == second).astype(mindspore.float32))
