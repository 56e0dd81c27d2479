"""Count the tokens of the requests of a server over the steps of a run: ``start(scheduled_tokens=...)``.

Every start counts, also in steps that are not collected: so the first token of a request in a step has its position in
the request. A server that skips tokens it has computed before (a cached prefix, a request that was interrupted) says so
by ``start(computed_tokens=...)``; the position is that number then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msprobe.core.errors import MsprobeException, argument_text

_MOST_REQUESTS = 100_000
"""Counts that are kept; those of the requests that came first are forgotten before."""


class RequestTokens:
    """The tokens of each request so far, and what the present start schedules."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._present: list[dict[str, Any]] | None = None

    def count(self, scheduled: Any, computed: Any) -> dict[str, int] | None:
        """Count the tokens of ``start(scheduled_tokens=scheduled, computed_tokens=computed)``; return the former.

        Raises:
            MsprobeException: one of them is no mapping from request ids to numbers of tokens.
        """
        tokens, before = check_tokens("scheduled_tokens", scheduled), check_tokens("computed_tokens", computed)
        self._add(tokens, before or {})
        return tokens

    def _add(self, scheduled: Mapping[str, int] | None, computed: Mapping[str, int]) -> None:
        self._present = None
        if not scheduled:
            return
        self._present = []
        for name, count in scheduled.items():
            position = computed.get(name, self._next.get(name, 0))
            self._present.append({"id": name, "tokens": count, "position": position})
            self._next.pop(name, None)  # the latest stand last
            self._next[name] = position + count
        while len(self._next) > max(_MOST_REQUESTS, len(scheduled)):
            del self._next[next(iter(self._next))]

    def batch(self, only: str | None) -> dict[str, Any] | None:
        """Return the header field ``scheduled_tokens``; ``only`` is the request to which tensors are cut."""
        if self._present is None:
            return None
        return {"requests": self._present, **({} if only is None else {"only": only})}


def check_tokens(argument: str, value: Any) -> dict[str, int] | None:
    """Return an argument of ``start`` that maps request ids to numbers of tokens as a dict; None for None.

    Raises:
        MsprobeException: the value is no such mapping.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise MsprobeException(
            0, f"start({argument}=...): expected a dict from request id to tokens, got {type(value).__name__}"
        )
    for name, count in value.items():
        if not isinstance(name, str) or isinstance(count, bool) or not _is_count(count):
            raise MsprobeException(
                0,
                f"start({argument}=...): expected request ids (str) with token counts, "
                f"got {argument_text(name)}: {argument_text(count)}",
            )
    return {name: int(count) for name, count in value.items()}


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and int(value) >= 0
