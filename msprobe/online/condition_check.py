"""Policy ``default`` of task ``free_benchmark``: is the kernel wrong, or do its inputs lose the digits?

    wrong kernel       the result is farther from the exact one (float64, same inputs) than rounding and its inputs
                       allow (``numerics.conditioned``)
    overflow           the exact result is finite and does not fit into the dtype
    ill-conditioned    one round-off of the inputs loses more than half of the digits (``numerics.condition_number``)
    not repeatable     mode no_change: the same call returns other bits
    order of elements  mode change_value: a reduction depends on the order of its elements

The first three are asked in every other mode; a result has the first of them that is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from msprobe.core.backend.replaying import Execution, HeldTensor, PreparedCall, Replayer, widened
from msprobe.core.tensors.dtypes import find_dtype
from msprobe.numerics.condition_number import WELL, Condition, condition_of
from msprobe.numerics.conditioned import by_rounding
from msprobe.numerics.kinds import Level
from msprobe.online.findings import Finding
from msprobe.online.perturbations import perturbed
from msprobe.replay.judged_call import CallJudgement, ValueJudgement, explain, judge_call

ORDER_FREE = frozenset({
    "sum",
    "mean",
    "max",
    "min",
    "amax",
    "amin",
    "prod",
    "norm",
    "std",
    "var",
    "logsumexp",
    "nansum",
    "nanmean",
})
"""Reductions: of all elements, they do not depend on their order."""


STEPPING = frozenset(
    {"histc", "histogram", "floor", "ceil", "round", "trunc", "fix", "frac", "sign", "heaviside", "bucketize"}
    | {"floor_divide", "floordiv", "remainder", "fmod", "mod"}
)
"""Functions that step: where they do, no condition is defined."""


class ConditionCheck:
    """Judges calls by their exact results and the condition of their inputs.

    Args:
        mode: the value of ``pert_mode``.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.knows_random = mode in ("no_change", "change_value")

    def findings(
        self, call: PreparedCall, target: Execution | None, replayer: Replayer, device: str
    ) -> Iterator[Finding]:
        """Yield the faults of a call: of its results, or of its gradients where it has some.

        Args:
            call: the call.
            target: what the program got; None to run it on the device.
            replayer: what runs it.
            device: where the program ran it.

        Raises:
            CannotReplayError: it cannot be run again.
        """
        if self._mode == "no_change":
            yield from _repeated(call, target or replayer.run(call, device), replayer, device)
        elif self._mode == "change_value":
            yield from _exchanged(call, target or replayer.run(call, device), replayer, device)
        else:
            judgement = judge_call(call, replayer, device, target, conditions=True)
            steps = call.api.strip("_") in STEPPING
            for position, value in enumerate(judgement.backward if call.gradients else judgement.forward):
                yield from _fault(position, replace(value, moved=()) if steps else value, judgement)

    def end_step(self) -> None:
        """Do nothing: each call is judged by itself."""


def _fault(position: int, value: ValueJudgement, judgement: CallJudgement) -> Iterator[Finding]:
    target, golden, found = value.target, value.golden, value.conditioned
    tensor = target if isinstance(target, HeldTensor) else None
    condition = WELL
    if isinstance(golden, HeldTensor) and value.moved:
        condition = condition_of(widened(golden.values), value.moved, judgement.roundoff)
    known = (tensor, condition.number, condition.error, found.error)
    if found.level == Level.ERROR:
        yield Finding(position, "wrong kernel", _text(condition, explain(value)), found.error, *known)
    elif tensor is not None and isinstance(golden, HeldTensor) and (place := _overflow(tensor, golden)) >= 0:
        exact = float(np.ravel(golden.values)[place])
        yield Finding(position, "overflow", f"element {place} is {exact:.4g}, beyond {tensor.dtype}", "", *known)
    elif condition.is_ill:
        yield Finding(position, "ill-conditioned", _text(condition, ""), condition.error, *known)


def _text(condition: Condition, wrong: str) -> str:
    text = (
        f"condition number {condition.number:.3g}: one round-off of its inputs ({condition.roundoff:.2g}) changes it "
        f"by {condition.error:.2g} of its size"
    )
    return f"{wrong} ({text})" if wrong else text


def _overflow(target: HeldTensor, golden: HeldTensor) -> int:
    """Return the position of an infinity whose exact value is finite; -1 without one."""
    known = find_dtype(target.dtype)
    if known is None or target.values.dtype.kind != "f" or target.values.shape != golden.values.shape:
        return -1
    beyond = np.isinf(target.values) & np.isfinite(golden.values)
    return int(np.ravel(beyond).argmax()) if beyond.any() else -1


def _pairs(target: Execution, again: Execution, backward: bool) -> Iterator[tuple[int, HeldTensor, HeldTensor]]:
    own, other = (target.gradients, again.gradients) if backward else (target.outputs, again.outputs)
    for position, (one, two) in enumerate(zip(own, other, strict=False)):
        if isinstance(one, HeldTensor) and isinstance(two, HeldTensor) and one.values.shape == two.values.shape:
            yield position, one, two


def _repeated(call: PreparedCall, target: Execution, replayer: Replayer, device: str) -> Iterator[Finding]:
    again = replayer.run(call, device)
    for position, one, two in _pairs(target, again, bool(call.gradients)):
        floats = one.values.dtype.kind in "fc"
        if np.array_equal(one.values, two.values, equal_nan=floats):
            continue
        error = _difference(one, two) if floats else float("nan")
        yield Finding(position, "not repeatable", "the same call returns other bits", error, one, kernel_error=error)


def _exchanged(call: PreparedCall, target: Execution, replayer: Replayer, device: str) -> Iterator[Finding]:
    if call.api not in ORDER_FREE or call.gradients:
        return
    changed = perturbed(call, "change_value")
    if changed is None:
        return
    again = replayer.run(changed, device)
    for position, one, two in _pairs(target, again, False):
        dtype = find_dtype(one.dtype)
        if one.values.size != 1 or dtype is None or one.values.dtype.kind != "f":
            continue
        if by_rounding(widened(one.values), widened(two.values), dtype).level == Level.ERROR:
            error = _difference(one, two)
            message = f"{float(one.values.item()):.9g}, and {float(two.values.item()):.9g} with two elements exchanged"
            yield Finding(position, "order of elements", message, error, one, kernel_error=error)


def _difference(one: HeldTensor, two: HeldTensor) -> float:
    own, other = widened(one.values), widened(two.values)
    with np.errstate(all="ignore"):
        scale = float(np.max(np.abs(own[np.isfinite(own)]), initial=0.0))
        return float(np.max(np.abs(own - other), initial=0.0)) / scale if scale else float("nan")
