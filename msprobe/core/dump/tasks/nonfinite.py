"""Tasks that find infinities and NaN: ``overflow_check``, ``nan_check``, and ``exception_dump`` at API level.

``NonFinite`` finds the calls that make infinities or NaN, as ``nonfinite_source`` says, which the command
``overflow_check`` asks too. A tensor that cannot be measured (no data, no statistics) counts as finite.

``RaisingCall`` serves ``exception_dump`` where the runtime does not offer that task: it finds the first call that
raises or makes infinities or NaN out of finite inputs. The entry of the call says which (``kind``).
"""

from __future__ import annotations

from typing import ClassVar

from msprobe.core.capture.describe import Node
from msprobe.core.config import DumpConfig
from msprobe.core.dump.tasks.judged_recorder import CallVerdict
from msprobe.core.dump.tasks.nonfinite_source import SourceSearch


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
        self._search = SourceSearch()

    def conclusion(self) -> str:
        """Return the number of findings, and where the first values come from that no recorded call made."""
        return f"{self._count} calls made infinities or NaN{self.entered}"

    @property
    def entered(self) -> str:
        """Where non-finite values came in, in words; "" where none did before a call made some."""
        first = self._search.first
        return "" if first is None or first.made else f"; {first.name}: {first.reason}"

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> CallVerdict:
        """Return the verdict on a finished call."""
        source, waits = self._search.judge(name, body, final=final)
        if waits:
            return CallVerdict(defer=True)
        if source is None or not source.made:
            return self._no_finding
        self._count += 1
        return CallVerdict(finding=source.reason)


RAISED = "raised"
NON_FINITE = "non-finite output"
_NO_FAILURE = (
    "no watched call raised or made infinities or NaN out of finite inputs (operators called as objects are watched "
    "where start is given the model)"
)


def failure_text(name: str, kind: str, finding: str) -> str:
    """Return in words which call failed first, and how (``RAISED``, ``NON_FINITE``)."""
    return f"{name} is the first ({kind}): {finding}"


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
        return f"exception_dump: {self._first or f'{_NO_FAILURE}{self._non_finite.entered}'}"

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> CallVerdict:
        """Return the verdict on a finished call; add ``kind`` to the body of a call that failed."""
        error = body.get("error")
        if error:
            kind, verdict = RAISED, CallVerdict(finding=str(error))
        else:
            kind, verdict = NON_FINITE, self._non_finite.judge(name, body, final)
        if verdict.finding is not None:
            body["kind"] = kind
            self._first = failure_text(name, kind, verdict.finding)
        return verdict
