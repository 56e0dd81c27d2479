"""``request_id`` with ``start(scheduled_tokens=...)``: which rows of a batch belong to one request of a server.

A serving framework puts the tokens of all scheduled requests one after the other in dimension 0. The mapping from
request to number of tokens, in scheduling order, gives the begin and the end of one request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msprobe.core.config.sections import SliceItem
from msprobe.core.errors import MsprobeException, argument_text


def tokens_of(request: str, scheduled: Mapping[str, int]) -> SliceItem | None:
    """Return the cut that leaves the tokens of ``request``; None when it is not scheduled.

    Servers put a prefix such as ``chatcmpl-`` before the id of their client: when no id is equal, the only id that ends
    in ``-`` and ``request`` is used.
    """
    if request not in scheduled:
        prefixed = [name for name in scheduled if name.endswith(f"-{request}")]
        if len(prefixed) != 1:
            return None
        request = prefixed[0]
    begin = 0
    for name, count in scheduled.items():
        if name == request:
            return SliceItem(dim=0, size=sum(scheduled.values()), begin=begin, end=begin + count)
        begin += count
    return None


def check_scheduled_tokens(value: Any) -> dict[str, int] | None:
    """Return ``start(scheduled_tokens=value)`` as a dict; None for None.

    Raises:
        MsprobeException: the value is no mapping from request ids to numbers of tokens.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise MsprobeException(
            0, f"start(scheduled_tokens=...): expected a dict from request id to tokens, got {type(value).__name__}"
        )
    for name, count in value.items():
        if not isinstance(name, str) or isinstance(count, bool) or not _is_count(count):
            raise MsprobeException(
                0,
                "start(scheduled_tokens=...): expected request ids (str) with token counts, "
                f"got {argument_text(name)}: {argument_text(count)}",
            )
    return {name: int(count) for name, count in value.items()}


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and int(value) >= 0
