"""``token_range``: collect only while an inference model works on certain tokens.

Each forward call of the model is one token, counted from 0 at ``start``. What runs between two calls belongs to the
token before; what runs before the first call belongs to none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe.core.capture.observer import Observer, Relay
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.log import logger


class TokenGate:
    """Shows the observer to the relay while the count lies in ``first`` to ``last``, both included."""

    def __init__(self, first: int, last: int, relay: Relay) -> None:
        self.first = first
        self.last = last
        self.count = -1
        self.unwatch: Callable[[], None] | None = None
        self._relay = relay
        self._observer: Observer | None = None

    @property
    def within(self) -> bool:
        return self.first <= self.count <= self.last

    def hold(self, observer: Observer) -> None:
        """Use ``observer`` from now on."""
        self._observer = observer
        self._show()

    def release(self) -> None:
        """Collect nothing until ``hold``; calls of the model still count."""
        self._observer = None

    def next_token(self) -> None:
        """The model is called once more."""
        self.count += 1
        if self._observer is None:
            return
        if self.count == self.first:
            logger.info("token %d: the token range [%d, %d] begins", self.count, self.first, self.last)
        elif self.count == self.last + 1:
            logger.info("token %d: the token range [%d, %d] is over", self.count, self.first, self.last)
        self._show()

    def conclude(self) -> None:
        """Say so when the range never began."""
        if self._observer is not None and self.count < self.first:
            logger.warning(
                "nothing is collected: the token range [%d, %d] was not reached, the model was called %d times since "
                "start(); tokens are counted from 0",
                self.first,
                self.last,
                self.count + 1,
            )

    def close(self) -> None:
        """Count no longer."""
        self._observer = None
        if self.unwatch is not None:
            self.unwatch()
            self.unwatch = None

    def _show(self) -> None:
        self._relay.observer = self._observer if self.within else None


def checked_range(value: Any, model: Any) -> tuple[int, int] | None:
    """``start(token_range=value)`` as first and last token.

    Raises:
        MsprobeException: it is no pair of integers with 0 <= first <= last, or there is no model to count calls of.
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
