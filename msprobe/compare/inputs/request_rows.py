"""The rows of one request in the packed batch of a step, from the header of its dump (see ``naming.requests``).

An axis of a tensor holds tokens of the request in one of these ways, and its length tells which:

    token     the rows of the batch, those of all requests one after the other, perhaps padded for a graph
    context   all tokens so far, as keys and values of attention: of all requests one after the other, or padded to the
              longest, or of this request alone
    last      one row per request: that of its last token (of which servers compute the logits)
    alone     the rows of this request, in a loop that takes one request of the batch after the other
    row       one row per request, each of as many tokens as the longest has, padded on the left or on the right
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.core.naming.requests import SCHEDULED_TOKENS, find_request

TOKEN, LAST, CONTEXT, ALONE, ROW = "token", "last", "context", "alone", "row"
_OPTION = re.compile(r"(?P<id>.+?)(?:@(?P<position>\d+))?", re.DOTALL)


class RequestOption(NamedTuple):
    """``ID[@POSITION]``: a request, and how many of its tokens came before those that its dumps count."""

    id: str
    position: int = 0


def parse_request(text: Any, option: str) -> RequestOption:
    """Return the request that an option names.

    Raises:
        MsprobeException: it names none.
    """
    found = _OPTION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        reason = f"{option} {text!r}: give the id of a request, or ID@POSITION with the position of its first token"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason)
    return RequestOption(found["id"], int(found["position"] or 0))


class AxisPart(NamedTuple):
    """The part of an axis that belongs to a request: tokens from ``position`` on, at indices from ``begin`` on."""

    kind: str
    begin: int
    position: int
    tokens: int


@dataclass(frozen=True, slots=True)
class RequestRows:
    """Where the tokens of one request are in the tensors of one step.

    Attributes:
        id: the request, as the server names it.
        position: which token of the request the first row is.
        tokens: the number of its rows.
        before: the rows of the batch before them.
        packed: the rows of the batch.
        number: its number among the requests of the batch, of which there are ``requests``.
        contexts_before: the tokens so far of the requests before it, ``contexts`` those of all requests.
        longest: the tokens so far of the request that has most of them.
        only: whether tensors as long as the batch were cut to its rows while they were recorded.
        padded: the rows of the batch with those that only fill a graph; ``packed`` where there are none.
        all_tokens: the rows of each request of the batch, ``all_contexts`` its tokens so far.
        width: the length of each row of a padded batch; 0 where the batch is packed.
        left: whether rows are padded on the left.
    """

    id: str
    position: int
    tokens: int
    before: int
    packed: int
    number: int
    requests: int
    contexts_before: int
    contexts: int
    longest: int
    only: bool
    padded: int
    all_tokens: tuple[int, ...] = ()
    all_contexts: tuple[int, ...] = ()
    width: int = 0
    left: bool = False

    @property
    def stop(self) -> int:
        """The position behind the last token."""
        return self.position + self.tokens

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers that describe the batch, in a fixed order; both sides may differ in them."""
        rows = self.before, self.before + self.tokens, self.tokens, self.packed, self.padded
        return (*rows, self.position, self.stop, self.number, self.requests, self.contexts, self.longest)

    def padded_to(self, length: int) -> RequestRows:
        """Return the same in a batch that is padded to a length."""
        return replace(self, padded=length)

    def in_rows(self, width: int, *, left: bool) -> RequestRows:
        """Return the same in a batch of a row per request, all of them padded to a width."""
        return replace(self, width=width, left=left)

    def parts(self, length: int) -> Iterator[AxisPart]:
        """Yield what an axis of this length may hold of the request."""
        if self.width:
            yield from self._parts_of_rows(length)
            return
        if self.only and length == self.tokens:
            yield AxisPart(TOKEN, 0, self.position, self.tokens)
        elif length in (self.packed, self.padded):
            yield AxisPart(TOKEN, self.before, self.position, self.tokens)
        elif length == self.tokens:
            yield AxisPart(ALONE, 0, self.position, self.tokens)
        if length == self.requests:
            yield AxisPart(LAST, self.number, self.stop - 1, 1)
        if length == self.contexts:
            yield AxisPart(CONTEXT, self.contexts_before, 0, self.stop)
        if length in (self.longest, self.stop):
            yield AxisPart(CONTEXT, 0, 0, self.stop)

    def _parts_of_rows(self, length: int) -> Iterator[AxisPart]:
        begin = self.width - self.tokens if self.left else 0
        if length == self.width:
            yield AxisPart(TOKEN, begin, self.position, self.tokens)
        if length == self.requests * self.width:
            yield AxisPart(TOKEN, self.number * self.width + begin, self.position, self.tokens)
        if length == self.requests:
            yield AxisPart(ROW, self.number, self.stop - 1, 1)
        if length == self.longest:
            yield AxisPart(CONTEXT, self.longest - self.stop if self.left else 0, 0, self.stop)


def request_rows(header: Mapping[str, Any], option: RequestOption) -> RequestRows | None:
    """Return the rows of a request in the step with this header; None where it has none of its tokens."""
    requests = _requests(header)
    name = find_request(option.id, (one["id"] for one in requests))
    number = next((number for number, one in enumerate(requests) if one["id"] == name), None)
    if number is None or not requests[number]["tokens"]:
        return None
    contexts = [one["position"] + one["tokens"] for one in requests]
    contexts[number] += option.position
    packed = sum(one["tokens"] for one in requests)
    return RequestRows(
        id=requests[number]["id"],
        position=requests[number]["position"] + option.position,
        tokens=requests[number]["tokens"],
        before=sum(one["tokens"] for one in requests[:number]),
        packed=packed,
        number=number,
        requests=len(requests),
        contexts_before=sum(contexts[:number]),
        contexts=sum(contexts),
        longest=max(contexts),
        only="only" in header[SCHEDULED_TOKENS],
        padded=packed,
        all_tokens=tuple(one["tokens"] for one in requests),
        all_contexts=tuple(contexts),
    )


def request_ids(header: Mapping[str, Any]) -> list[str]:
    """Return the ids of the requests of a step."""
    return [one["id"] for one in _requests(header)]


def _requests(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the requests of a step; none where the header is damaged there."""
    batch = header.get(SCHEDULED_TOKENS)
    requests = batch.get("requests") if isinstance(batch, dict) else None
    if not isinstance(requests, list) or not all(map(_is_request, requests)):
        return []
    return requests


def _is_request(one: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("id"), str):
        return False
    return all(type(one.get(name)) is int and one[name] >= 0 for name in ("tokens", "position"))


def rows_of_pair(
    headers: tuple[Mapping[str, Any], Mapping[str, Any]], options: tuple[RequestOption, RequestOption]
) -> tuple[RequestRows, RequestRows]:
    """Return the rows of the request in both dumps of a pair.

    Raises:
        NotComparableError: a dump has none of its tokens.
    """
    target, golden = (request_rows(header, option) for header, option in zip(headers, options, strict=True))
    if target is None or golden is None:
        side, option = ("target", options[0]) if target is None else ("golden run", options[1])
        raise NotComparableError(f"a dump of the {side} has no tokens of request {option.id!r}")
    return target, golden
