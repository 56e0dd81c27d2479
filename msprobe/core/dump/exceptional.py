"""Task ``exception_dump`` where the runtime cannot do it: the first call that fails, at the level of API calls.

Failing is to raise, or to make infinities or NaN out of finite inputs. The entry of that call says which (``kind``).
"""

from __future__ import annotations

from msprobe.core.capture.describe import Node
from msprobe.core.dump.judging import Verdict
from msprobe.core.dump.nonfinite import NonFinite

RAISED = "raised"
NON_FINITE = "non-finite output"
_NOTHING = (
    "no watched call raised or made infinities or NaN out of finite inputs (operators called as objects are watched "
    "where start is given the model)"
)


class Exceptional:
    """Finds the call that raised, or that was the first to leave the finite numbers; nothing else is recorded."""

    def __init__(self) -> None:
        self._non_finite = NonFinite(only_guilty=True)
        self._found = ""

    def conclusion(self) -> str:
        return f"exception_dump: {self._found or _NOTHING}"

    def judge(self, name: str, body: dict[str, Node], final: bool = False) -> Verdict:
        error = body.get("error")
        if error:
            kind, verdict = RAISED, Verdict(finding=str(error))
        else:
            kind, verdict = NON_FINITE, self._non_finite.judge(name, body, final)
        if verdict.finding is not None:
            body["kind"] = kind
            self._found = f"{name} is the first ({kind}): {verdict.finding}"
        return verdict
