"""The filters of a start: the token range, the request, and the number of findings.

begin(...)  check the arguments of a start()
admit()     return whether this start collects
open(...)   show the observer to the taps: now, or token by token
close()     stop() was called
"""

from __future__ import annotations

from typing import Any

from msprobe.core.backend.protocols import Runtime
from msprobe.core.capture.observer import Observer, Relay
from msprobe.core.config import DumpConfig
from msprobe.core.config.sections import OverflowCheckSection, SliceItem
from msprobe.core.dump.judging import Findings
from msprobe.core.dump.requests import check_scheduled_tokens, tokens_of
from msprobe.core.dump.tokens import TokenRange, check_token_range
from msprobe.core.log import logger


class StartFilters:
    """The filters of one session.

    Attributes:
        findings: the count of findings, for all starts.
        tokens: the cut for the request of the present start; None when tensors are recorded whole.
    """

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
        self._token_range: TokenRange | None = None

    def begin(self, model: Any, token_range: Any, scheduled_tokens: Any) -> None:
        """Take the arguments of a start. Raises MsprobeException for an argument that cannot be used."""
        self._range = check_token_range(token_range, model)
        self._scheduled = check_scheduled_tokens(scheduled_tokens)
        self._model = model if self._range is not None else None

    def admit(self) -> bool:
        """Return whether this start collects; log why not."""
        if self.findings.exhausted:
            return False
        self.tokens = None
        if self._request is not None:
            self.tokens = tokens_of(self._request, self._scheduled or {})
            if self.tokens is None:
                self._warn_request_absent()
                return False
        self.close()
        if self._range is not None:
            self._token_range = TokenRange(*self._range, self._relay)
            self._token_range.count_calls(self._runtime.watch_calls, self._model)
            self._model = None
        return True

    def admit_next_step(self) -> bool:
        """Return whether a step that begins without a start collects, under the arguments of the last start."""
        return not self.findings.exhausted and (self._request is None or self.tokens is not None)

    def open(self, observer: Observer) -> None:
        """Report to ``observer`` from now on, or while the token range lasts."""
        if self.findings.exhausted:
            self._relay.observer = None
        elif self._token_range is None:
            self._relay.observer = observer
        else:
            self._token_range.hold(observer)

    def close(self, warn: bool = False) -> None:
        """Count tokens no longer; with ``warn`` log when the token range never began."""
        if self._token_range is not None:
            if warn:
                self._token_range.warn_if_not_reached()
            self._token_range.close()
            self._token_range = None

    def _end(self) -> None:
        """Observe nothing more, in this step and all that follow: the last finding was added."""
        if self._token_range is not None:
            self._token_range.release()
        self._relay.observer = None

    def _warn_request_absent(self) -> None:
        if self._scheduled is None:
            reason = "start() got no scheduled_tokens"
        else:
            reason = f"it is not among the scheduled ones ({', '.join(list(self._scheduled)[:5]) or 'none'})"
        logger.warning("nothing is collected in this step for request %s: %s", self._request, reason)
