"""Tasks that find infinities and NaN: ``overflow_check``, ``nan_check``, and ``exception_dump`` at API level.

``NonFinite`` finds the calls that turn finite inputs into infinities or NaN. A call has a finding when all its inputs
are finite (arguments, parameters, numbers among them) and one of its outputs is not. So neither a call that passes a
NaN on is reported, nor one that got -inf to mask with. A backward or the gradient of a parameter is computed from
values that forward calls saved: it has a finding only when these calls got no NaN and returned finite values only, and
when the incoming gradients are finite too. A tensor that cannot be measured (no data, no statistics) counts as finite.

``RaisingCall`` serves ``exception_dump`` where the runtime does not offer that task: it finds the first call that
raises or makes infinities or NaN out of finite inputs. The entry of the call says which (``kind``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from msprobe.core.capture.describe import Node
from msprobe.core.config import DumpConfig
from msprobe.core.dump.record.tensor_node import split_sides
from msprobe.core.dump.tasks.judged_recorder import CallDependencies, CallVerdict, split_name
from msprobe.core.naming.names import Phase
from msprobe.core.store.record_walk import Leaf, values_below


def non_finite_judge(config: DumpConfig) -> NonFinite:
    """Return the judge of the tasks ``overflow_check`` and ``nan_check``."""
    return NonFinite(config.task_spec.only_findings)


class NonFinite:
    """Judge by the extremes of each tensor: a NaN or infinity anywhere in it shows in Max or Min.

    Args:
        only_findings: keep nothing but calls with a finding (``overflow_check``); else the statistics of all calls up
            to the last finding (``nan_check``).
    """

    needs_statistics: ClassVar[bool] = True  # a checksum does not tell whether values are finite

    def __init__(self, only_findings: bool) -> None:
        self._no_finding = CallVerdict(keep=not only_findings)
        self._count = 0
        self._first_input = ""
        self._dependencies = CallDependencies()

    def conclusion(self) -> str:
        """Return the number of findings, and the first non-finite input when no recorded call made it."""
        source = f"; {self._first_input}, and no recorded call made it" if self._first_input and not self._count else ""
        return f"{self._count} calls made infinities or NaN out of finite inputs{source}"

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> CallVerdict:
        """Return the verdict on a finished call."""
        inputs, outputs = split_sides(body)
        given = values_below(inputs)
        bad_input, bad_output = _first_non_finite(given), _first_non_finite(values_below(outputs))
        phase = split_name(name)[2]
        tainted = next((leaf for leaf in given if _taints(leaf.raw, phase)), None)
        sound = self._dependencies.is_sound(name)
        if phase != Phase.PARAMETERS_GRAD.value:
            self._dependencies.record(name, tainted is None and bad_output is None)
        if tainted is not None and not self._first_input:
            self._first_input = f"{name} was given one in {tainted.suffix} ({_extremes_text(tainted.raw)})"
        if bad_output is None or bad_input is not None or not sound:
            return self._no_finding
        if phase == Phase.PARAMETERS_GRAD.value and not final and not self._dependencies.is_complete(name):
            return CallVerdict(defer=True)
        self._count += 1
        extremes = _extremes_text(bad_output.raw)
        return CallVerdict(finding=f"{bad_output.suffix} is not finite ({extremes}), every input is")


def is_finite_node(leaf: dict[str, Any]) -> bool:
    """Return whether a tensor or number holds no infinity and no NaN, as far as it was measured."""
    return all(not isinstance(value, float) or math.isfinite(value) for value in _extremes(leaf))


def _taints(leaf: dict[str, Any], phase: str) -> bool:
    """Return whether this input excuses later calls. An infinity in a forward call may be a mask, so it does not."""
    if phase == Phase.BACKWARD.value:
        return not is_finite_node(leaf)
    return any(isinstance(value, float) and math.isnan(value) for value in _extremes(leaf))


def _extremes(leaf: dict[str, Any]) -> tuple[Any, Any, Any]:
    return leaf.get("Max"), leaf.get("Min"), leaf.get("value")


def _first_non_finite(leaves: Iterable[Leaf]) -> Leaf | None:
    return next((leaf for leaf in leaves if not is_finite_node(leaf.raw)), None)


def _extremes_text(leaf: dict[str, Any]) -> str:
    if "value" in leaf:
        return str(leaf["value"])
    return f"Max {leaf.get('Max')}, Min {leaf.get('Min')}"


RAISED = "raised"
NON_FINITE = "non-finite output"
_NO_FAILURE = (
    "no watched call raised or made infinities or NaN out of finite inputs (operators called as objects are watched "
    "where start is given the model)"
)


def failing_call_judge(_config: DumpConfig) -> RaisingCall:
    """Return the judge of task ``exception_dump``."""
    return RaisingCall()


class RaisingCall:
    """Find the first call that raised or returned non-finite values; no other call is kept."""

    needs_statistics: ClassVar[bool] = True

    def __init__(self) -> None:
        self._non_finite = NonFinite(only_findings=True)
        self._first = ""

    def conclusion(self) -> str:
        """Return which call failed first, and how."""
        return f"exception_dump: {self._first or _NO_FAILURE}"

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> CallVerdict:
        """Return the verdict on a finished call; add ``kind`` to the body of a call that failed."""
        error = body.get("error")
        if error:
            kind, verdict = RAISED, CallVerdict(finding=str(error))
        else:
            kind, verdict = NON_FINITE, self._non_finite.judge(name, body, final)
        if verdict.finding is not None:
            body["kind"] = kind
            self._first = f"{name} is the first ({kind}): {verdict.finding}"
        return verdict
