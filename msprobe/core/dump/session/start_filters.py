"""Decide whether a start collects: by token range, request, and number of findings.

``StartFilters`` applies what the arguments of a start and the findings so far decide; a session calls it in this order:

    begin(...)  check the arguments of a start()
    admit()     return whether this start collects
    show(...)   show the observer to the taps: now, or token by token
    close()     stop() was called

``token_range`` (``TokenRange``) collects only while an inference model works on certain tokens. Each forward call of
the model is one token, counted from 0 at ``start``. Calls between two tokens belong to the first of them; calls before
the first token belong to none.

``request_id`` with ``start(scheduled_tokens=...)`` (``tokens_of``) selects the rows of a batch that belong to one
request of a server. A serving framework concatenates the tokens of all scheduled requests in dimension 0. The mapping
from request to number of tokens, in scheduling order, gives the begin and the end of one request. What each step holds
of which request stands in the header of its dump (``record.request_tokens``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.backend.protocols import Runtime
from msprobe.core.capture.observer import CurrentObserver, Observer
from msprobe.core.config import DumpConfig
from msprobe.core.config.sections import SliceItem
from msprobe.core.dump.record.request_tokens import RequestTokens
from msprobe.core.dump.tasks.judged_recorder import Findings
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.log import logger
from msprobe.core.naming.requests import find_request


class StartFilters:
    """The filters of one session.

    Attributes:
        findings: the count of findings, for all starts.
        tokens: the cut for the request of the present start; None when tensors are recorded whole.
    """

    def __init__(self, config: DumpConfig, current: CurrentObserver, runtime: Runtime, requests: RequestTokens) -> None:
        section = config.section
        self.findings = Findings(section.finding_limit, self.end)
        self.tokens: SliceItem | None = None
        self._current = current
        self._runtime = runtime
        self._request = section.request_id
        self._model: Any = None
        self._range: tuple[int, int] | None = None
        self._scheduled: dict[str, int] | None = None
        self._token_range: TokenRange | None = None
        self._requests = requests

    def begin(self, model: Any, token_range: Any, scheduled_tokens: Any, computed_tokens: Any = None) -> None:
        """Take the arguments of a start. Raises MsprobeException for an argument that cannot be used."""
        self._range = check_token_range(token_range, model)
        self._scheduled = self._requests.count(scheduled_tokens, computed_tokens)
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
            self._token_range = TokenRange(*self._range, self._current)
            self._token_range.count_calls(self._runtime.watch_calls, self._model)
            self._model = None
        return True

    def batch(self) -> dict[str, Any] | None:
        """Return the header field about the requests of the present start; None where it names none."""
        return self._requests.batch(None if self.tokens is None else self._request)

    def admit_next_step(self) -> bool:
        """Return whether a step that begins without a start collects, under the arguments of the last start."""
        return not self.findings.exhausted and (self._request is None or self.tokens is not None)

    def show(self, observer: Observer) -> None:
        """Let the taps report to ``observer`` from now on, or while the token range lasts."""
        self._current.clear()
        if self.findings.exhausted:
            return
        if self._token_range is None:
            self._current.observer = observer
        else:
            self._token_range.hold(observer)

    def close(self, warn: bool = False) -> None:
        """Count tokens no longer; with ``warn`` log when the token range never began."""
        if self._token_range is not None:
            if warn:
                self._token_range.warn_if_not_reached()
            self._token_range.close()
            self._token_range = None

    def end(self) -> None:
        """Observe nothing more, as the last finding was added or nothing more may be written."""
        if self._token_range is not None:
            self._token_range.release()
        self._current.clear()

    def _warn_request_absent(self) -> None:
        if self._scheduled is None:
            reason = "start() got no scheduled_tokens"
        else:
            reason = f"it is not among the scheduled ones ({', '.join(list(self._scheduled)[:5]) or 'none'})"
        logger.warning("nothing is collected in this step for request %s: %s", self._request, reason)


class TokenRange:
    """Make the observer the current one while the count lies in ``first`` to ``last``, both included."""

    def __init__(self, first: int, last: int, current: CurrentObserver) -> None:
        self.first = first
        self.last = last
        self.count = -1
        self._unwatch: Callable[[], None] | None = None
        self._current = current
        self._observer: Observer | None = None

    @property
    def within(self) -> bool:
        """Whether the present token lies in the range."""
        return self.first <= self.count <= self.last

    def count_calls(self, watch_calls: Callable[[Any, Callable[[], None]], Callable[[], None]], model: Any) -> None:
        """Count the forward calls of ``model`` until ``close``; ``watch_calls`` is that of the framework's runtime."""
        self._unwatch = watch_calls(model, self.next_token)

    def hold(self, observer: Observer) -> None:
        """Show ``observer`` from now on, within the range."""
        self._observer = observer
        self._show()

    def release(self) -> None:
        """Show no observer until the next ``hold``; calls of the model still count."""
        self._observer = None

    def next_token(self) -> None:
        """Count one call of the model."""
        self.count += 1
        if self._observer is None:
            return
        if self.count == self.first:
            logger.info("token %d: the token range [%d, %d] begins", self.count, self.first, self.last)
        elif self.count == self.last + 1:
            logger.info("token %d: the token range [%d, %d] is over", self.count, self.first, self.last)
        self._show()

    def warn_if_not_reached(self) -> None:
        """Warn when the range never began."""
        if self._observer is not None and self.count < self.first:
            logger.warning(
                "nothing is collected: the token range [%d, %d] was not reached, the model was called %d times since "
                "start(); tokens are counted from 0",
                self.first,
                self.last,
                self.count + 1,
            )

    def close(self) -> None:
        """Count calls no longer."""
        self._observer = None
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _show(self) -> None:
        self._current.observer = self._observer if self.within else None


def check_token_range(value: Any, model: Any) -> tuple[int, int] | None:
    """Return the first and the last token of ``start(token_range=value)``; None for None.

    Raises:
        MsprobeException: the value is no pair of integers with 0 <= first <= last, or there is no model.
    """
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise MsprobeException(
            0, f"token_range must be a list or tuple of two integers [first, last], got {argument_text(value)}"
        )
    for bound in value:
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise MsprobeException(0, f"token_range must hold two integers, got {argument_text(bound)}")
    first, last = value
    if first < 0 or first > last:
        raise MsprobeException(0, f"token_range must satisfy 0 <= first <= last, got [{first}, {last}]")
    if model is None:
        raise MsprobeException(0, "token_range counts the calls of a model: call start(model=..., token_range=...)")
    return first, last


def tokens_of(request: str, scheduled: Mapping[str, int]) -> SliceItem | None:
    """Return the cut that leaves the tokens of ``request`` (see ``find_request``); None when it is not scheduled."""
    known = find_request(request, scheduled)
    begin = 0
    for name, count in scheduled.items():
        if name == known:
            return SliceItem(dim=0, size=sum(scheduled.values()), begin=begin, end=begin + count)
        begin += count
    return None
