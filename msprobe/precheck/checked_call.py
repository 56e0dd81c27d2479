"""One recorded call, checked: a row for each of its results and gradients, and the status of both passes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from msprobe.core.backend.replaying import CannotReplayError, Execution, HeldTensor, PreparedCall, Replayer
from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.numerics.kinds import Level
from msprobe.numerics.published.first_stage import QUANTIZING, first_stage
from msprobe.numerics.published.metrics import PublishedMetrics, measure
from msprobe.precheck.settings import CheckSettings
from msprobe.replay.cases import Case, has_values, prepare, recorded_results
from msprobe.replay.judged_call import RANDOM, CallJudgement, ValueJudgement, explain, judge_call

FORWARD, BACKWARD = "forward", "backward"


class Status(str, Enum):
    """The status of a value, and of a pass of a call; the text is the one in the tables."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"

    __str__ = str.__str__


OF_LEVEL = {Level.PASS: Status.PASS, Level.WARNING: Status.WARNING, Level.ERROR: Status.ERROR}
_DRAWS = 3
_ORDER = (Status.SKIP, Status.PASS, Status.WARNING, Status.ERROR)


@dataclass(frozen=True, slots=True)
class CheckedValue:
    """One result, or the gradient of one argument.

    Attributes:
        name: the name of the row, ``Functional.linear.0.forward.output.0``.
        golden_dtype, dtype: the neutral dtypes of both calls; "" for what is no tensor.
        shape: the shape on the device.
        metrics: the published metrics.
        status: the verdict of the policy.
        message: why it is not ``pass``.
    """

    name: str
    golden_dtype: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    metrics: PublishedMetrics = field(default_factory=PublishedMetrics)
    status: Status = Status.SKIP
    message: str = ""


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """One call.

    Attributes:
        name: its name without the phase.
        forward, backward: the status of each pass; ``SKIP`` where nothing was judged.
        message: what a reader has to know: reasons, the golden dtype where it is not float64.
        values: the rows.
    """

    name: str
    forward: Status = Status.SKIP
    backward: Status = Status.SKIP
    message: str = ""
    values: Sequence[CheckedValue] = ()

    @property
    def status(self) -> Status:
        """The worse status of both passes."""
        return worse(self.forward, self.backward)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A checked call together with its values, for those who keep them."""

    checked: CheckedCall
    call: PreparedCall | None = None
    judgement: CallJudgement | None = None


def check_case(case: Case, replayer: Replayer, settings: CheckSettings) -> CheckRun:
    """Run a recorded call again and judge it. What cannot be run is skipped, with the reason."""
    try:
        call = prepare(case, settings.seed)
        target = replayer.run(call, settings.device)
        recorded = [] if _drawn_shapes(case, target, replayer, settings) else recorded_results(case)
        judgement = judge_call(call, replayer, settings.device, target, recorded=recorded)
    except CannotReplayError as error:
        return CheckRun(skipped(case.name, str(error)))
    measured = judgement.note != RANDOM
    forward = [_checked(case, FORWARD, value, settings, measured) for value in judgement.forward]
    backward = [_checked(case, BACKWARD, value, settings, measured) for value in judgement.backward]
    notes = [judgement.note, "" if judgement.golden_dtype == "float64" else f"golden in {judgement.golden_dtype}"]
    if case.backward is not None and not backward and not judgement.note:
        notes.append("backward: no result takes a gradient here")
    if not forward and not judgement.note:
        notes.append("it returns nothing that can be compared")
    wrong = [f"{value.name[len(case.name) + 1 :]}: {value.message}" for value in (*forward, *backward) if value.message]
    message = "; ".join(filter(None, (*wrong, *notes)))
    statuses = [worse(*(value.status for value in values)) for values in (forward, backward)]
    checked = CheckedCall(case.name, statuses[0], statuses[1], message, (*forward, *backward))
    return CheckRun(checked, call, judgement)


def _drawn_shapes(case: Case, target: Execution, replayer: Replayer, settings: CheckSettings) -> bool:
    """Return whether the shapes of results depend on values, as those of ``nonzero`` do, and the values are drawn."""
    shapes = [None if each is None else each.shape for each in recorded_results(case)]
    if has_values(case) or shapes == _shapes(target):
        return False
    others = (replayer.run(prepare(case, settings.seed + draw), settings.device) for draw in range(1, 1 + _DRAWS))
    return any(_shapes(other) != _shapes(target) for other in others)


def _shapes(execution: Execution) -> list[tuple[int, ...] | None]:
    return [each.values.shape if isinstance(each, HeldTensor) else None for each in execution.outputs]


def worse(*statuses: Status) -> Status:
    """Return the worst status; ``SKIP`` where there is none."""
    return max(statuses, key=_ORDER.index, default=Status.SKIP)


def skipped(name: str, reason: str) -> CheckedCall:
    """Return a call that is not checked, with the reason."""
    return CheckedCall(name, message=reason)


def _checked(case: Case, phase: str, value: ValueJudgement, settings: CheckSettings, measured: bool) -> CheckedValue:
    name = f"{case.name}.{phase}.output.{value.slot.rpartition('.')[2]}"
    target, golden = value.target, value.golden
    status, message = OF_LEVEL[value.conditioned.level], explain(value)
    if not isinstance(target, HeldTensor) or not isinstance(golden, HeldTensor):
        return CheckedValue(name, status=status, message=message)
    dtype = find_dtype(target.dtype)
    assert dtype is not None
    if not measured or target.values.shape != golden.values.shape:
        return CheckedValue(name, golden.dtype, target.dtype, target.values.shape, status=status, message=message)
    metrics = measure(target.values, golden.values, dtype)
    if settings.policy == "reference":
        status, message = _published(case, metrics, dtype, target, settings)
    return CheckedValue(name, golden.dtype, target.dtype, target.values.shape, metrics, status, message)


def _published(
    case: Case, metrics: PublishedMetrics, dtype: DType, target: HeldTensor, settings: CheckSettings
) -> tuple[Status, str]:
    quantizing = case.api.api in QUANTIZING or case.api.api in settings.quantizing
    found = first_stage(metrics, dtype, elements=int(np.size(target.values)), quantizing=quantizing)
    return OF_LEVEL[found.level], found.message


def figures(metrics: PublishedMetrics) -> Iterator[float | None]:
    """Yield the metrics in the order of the columns; None where there is none."""
    for name in PublishedMetrics.__slots__:
        value = getattr(metrics, name)
        yield None if value is None or (isinstance(value, float) and math.isnan(value) and name == "cosine") else value
