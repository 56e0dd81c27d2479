"""Pair the steps of two servers by the tokens of one request: ``--target-request`` and ``--golden-request``.

Steps pair by rank, and by the positions of the tokens that both hold of the request, whatever their numbers are. One
step of a side may pair with several of the other (a prompt in chunks). A step of the golden run with tokens that are
all compared already (a request that was interrupted and computed again) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from msprobe.compare.inputs.request_rows import RequestOption, RequestRows, parse_request, request_ids, request_rows
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.naming.requests import SCHEDULED_TOKENS
from msprobe.core.store.partial_reader import opened_documents
from msprobe.core.store.reader import Place, load_dump

_LISTED = 5
_SIDES = "target", "golden run"


class PlaceRows(NamedTuple):
    """A dump that holds tokens of the request, and where they are."""

    place: Place
    rows: RequestRows


class TokenPair(NamedTuple):
    """Two dumps, and the positions of the tokens that are compared: from ``first`` to before ``stop``."""

    target: Place
    golden: Place
    first: int
    stop: int


def requests_of(target: str | None, golden: str | None) -> tuple[RequestOption, RequestOption]:
    """Return the requests of both sides; what one option names is looked for on the other side, too."""
    one = parse_request(target or golden, "target_request" if target else "golden_request")
    other = one if not (target and golden) else parse_request(golden, "golden_request")
    return one, other


def token_pairs(
    sides: tuple[Sequence[Place], Sequence[Place]], requests: tuple[RequestOption, RequestOption], same_rank: Any
) -> tuple[list[TokenPair], list[str]]:
    """Return the pairs of dumps in the order of the target's tokens, and a line for each range without a partner.

    Args:
        sides: the dumps of target and golden run.
        requests: the requests of both.
        same_rank: takes places of one step of both sides and returns the pairs of them.

    Raises:
        NotComparableError: a side has no token counts, no such request, or no token of it that the other side has.
    """
    left, right = (_holding(*side) for side in zip(_SIDES, sides, requests, strict=True))
    pairs: list[TokenPair] = []
    for target in left:
        covered: set[int] = set()
        for golden in right:
            first, stop = _common(target.rows, golden.rows)
            if covered.issuperset(range(first, stop)) or not same_rank([target.place], [golden.place]):
                continue
            covered.update(range(first, stop))
            pairs.append(TokenPair(target.place, golden.place, first, stop))
    if not pairs:
        held = (f"tokens {_ranges(side)} in the {name}" for name, side in zip(_SIDES, (left, right), strict=True))
        raise NotComparableError(f"no token of request {requests[0].id!r} is on both sides: {', '.join(held)}")
    pairs.sort(key=lambda pair: (pair.target.step is not None, pair.target.step or 0, pair.target.label, pair.first))
    return pairs, [*_alone("target", left, right), *_alone("golden run", right, left)]


def token_range(first: int, stop: int) -> str:
    """Return ``4`` or ``4-7`` for the positions from ``first`` to before ``stop``."""
    return str(first) if stop == first + 1 else f"{first}-{stop - 1}"


def _holding(side: str, places: Sequence[Place], request: RequestOption) -> list[PlaceRows]:
    """Return the dumps of a side that hold tokens of the request.

    Raises:
        NotComparableError: there is none.
    """
    headers = [_header(place) for place in places]
    if not any(SCHEDULED_TOKENS in header for header in headers):
        raise NotComparableError(
            f"the {side} does not tell which rows belong to a request: record it with "
            "start(scheduled_tokens={request: number of tokens})"
        )
    found = [(place, request_rows(header, request)) for place, header in zip(places, headers, strict=True)]
    holding = [PlaceRows(place, rows) for place, rows in found if rows is not None]
    if not holding:
        ids = list(dict.fromkeys(name for header in headers for name in request_ids(header)))
        known = ", ".join(ids[:_LISTED]) + (f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else "")
        raise NotComparableError(f"the {side} has no request {request.id!r}; there is {known or 'none'}")
    return holding


def _header(place: Place) -> Mapping[str, Any]:
    """Return the header of a dump, without its records where its layout allows that."""
    return _header_alone(place) or load_dump(place).header


def _header_alone(place: Place) -> Mapping[str, Any] | None:
    if not isinstance(cast(object, place.document), Path):
        return None
    try:
        with opened_documents(place.document, place.document) as documents:
            return None if documents is None else documents.headers[0]
    except (OSError, ValueError, ReadError):  # who reads the whole of it says what is wrong
        return None


def _common(left: RequestRows, right: RequestRows) -> tuple[int, int]:
    return max(left.position, right.position), min(left.stop, right.stop)


def _positions(side: Sequence[PlaceRows]) -> set[int]:
    return {position for _, rows in side for position in range(rows.position, rows.stop)}


def _alone(name: str, own: Sequence[PlaceRows], other: Sequence[PlaceRows]) -> Iterator[str]:
    """Yield a line for the tokens that only one side has."""
    lacking = sorted(_positions(own) - _positions(other))
    if lacking:
        one = len(lacking) == 1
        yield f"token{'' if one else 's'} {_text(lacking)} of request {own[0].rows.id} only in the {name}"


def _ranges(side: Sequence[PlaceRows]) -> str:
    return _text(sorted(_positions(side)))


def _text(positions: Sequence[int]) -> str:
    """Return ascending numbers as ranges: ``0-3, 7``."""
    present = set(positions)
    begins = [number for number in positions if number - 1 not in present]
    ends = [number for number in positions if number + 1 not in present]
    return ", ".join(token_range(begin, end + 1) for begin, end in zip(begins, ends, strict=True))
