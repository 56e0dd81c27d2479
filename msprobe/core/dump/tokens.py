"""``token_range``: collect only while an inference model works on certain tokens.

Each forward call of the model is one token, counted from 0 at ``start``. Calls between two tokens belong to the first
of them; calls before the first token belong to none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.capture.observer import Observer, Relay
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.log import logger


class TokenRange:
    """Show the observer to the relay while the count lies in ``first`` to ``last``, both included."""

    def __init__(self, first: int, last: int, relay: Relay) -> None:
        self.first = first
        self.last = last
        self.count = -1
        self._unwatch: Callable[[], None] | None = None
        self._relay = relay
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
        self._relay.observer = self._observer if self.within else None


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
