"""What may hold a start back or narrow it: the token range, the request, and the findings that are already complete.

ask(...)    what this start() was given, checked
admit()     may this start collect at all?
open(...)   show the observer to the taps: now, or token by token
shut()      stop() was called
"""

from __future__ import annotations

from typing import Any

from msprobe.core.backend.protocols import Runtime
from msprobe.core.capture.observer import Observer, Relay
from msprobe.core.config import DumpConfig
from msprobe.core.config.sections import OverflowCheckSection, SliceItem
from msprobe.core.dump.judging import Findings
from msprobe.core.dump.requests import checked_tokens, tokens_of
from msprobe.core.dump.tokens import TokenGate, checked_range
from msprobe.core.log import logger


class Gates:
    """The gates of one session. ``tokens`` is the cut for the present start's request, ``findings`` counts for all."""

    def __init__(self, config: DumpConfig, relay: Relay, runtime: Runtime) -> None:
        section = config.section
        limit = section.overflow_nums if isinstance(section, OverflowCheckSection) else section.diff_nums
        self.findings = Findings(limit, self._end)
        self.tokens: SliceItem | None = None
        self._relay = relay
        self._runtime = runtime
        self._request = section.request_id
        self._model: Any = None
        self._range: tuple[int, int] | None = None
        self._scheduled: dict[str, int] | None = None
        self._gate: TokenGate | None = None

    def ask(self, model: Any, token_range: Any, scheduled_tokens: Any) -> None:
        """Take the arguments of a start. Raises MsprobeException for what cannot be used."""
        self._range = checked_range(token_range, model)
        self._scheduled = checked_tokens(scheduled_tokens)
        self._model = model if self._range is not None else None

    def admit(self) -> bool:
        """Whether this start collects; says why not."""
        if self.findings.exhausted:
            return False
        self.tokens = None
        if self._request is not None:
            self.tokens = tokens_of(self._request, self._scheduled or {})
            if self.tokens is None:
                self._say_absent()
                return False
        self.shut()
        if self._range is not None:
            self._gate = TokenGate(*self._range, self._relay)
            self._gate.unwatch = self._runtime.watch_calls(self._model, self._gate.next_token)
            self._model = None
        return True

    def stay(self) -> bool:
        """Whether a step that begins without a start collects, under what the last start was given."""
        return not self.findings.exhausted and (self._request is None or self.tokens is not None)

    def open(self, observer: Observer) -> None:
        """Report to ``observer`` from now on, or while the token range lasts."""
        if self.findings.exhausted:
            self._relay.observer = None
        elif self._gate is None:
            self._relay.observer = observer
        else:
            self._gate.hold(observer)

    def shut(self, tell: bool = False) -> None:
        """Count tokens no longer; with ``tell`` say when the range never began."""
        if self._gate is not None:
            if tell:
                self._gate.conclude()
            self._gate.close()
            self._gate = None

    def _end(self) -> None:
        """The last finding: nothing more is observed, in this step and all that follow."""
        if self._gate is not None:
            self._gate.release()
        self._relay.observer = None

    def _say_absent(self) -> None:
        if self._scheduled is None:
            reason = "start() was not told the scheduled_tokens"
        else:
            reason = f"it is not among the scheduled ones ({', '.join(list(self._scheduled)[:5]) or 'none'})"
        logger.warning("nothing is collected in this step for request %s: %s", self._request, reason)
