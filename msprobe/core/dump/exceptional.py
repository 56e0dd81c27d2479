"""Task ``exception_dump`` where the runtime does not offer it: find the first call that fails, at API level.

A call fails when it raises, or when it makes infinities or NaN out of finite inputs. Its entry says which (``kind``).
"""

from __future__ import annotations

from msprobe.core.capture.describe import Node
from msprobe.core.dump.judging import CallVerdict
from msprobe.core.dump.nonfinite import NonFinite

RAISED = "raised"
NON_FINITE = "non-finite output"
_NO_FAILURE = (
    "no watched call raised or made infinities or NaN out of finite inputs (operators called as objects are watched "
    "where start is given the model)"
)


class RaisingCall:
    """Find the first call that raised or returned non-finite values; no other call is kept."""

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
