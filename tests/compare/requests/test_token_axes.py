"""Which part of a pair of tensors belongs to a request follows from the lengths of their axes."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.compare.inputs.request_rows import RequestOption, RequestRows, request_rows
from msprobe.compare.requests.token_axes import Match, Part, TokenAxes, TokenAxis

Ranges = tuple[slice, ...]


def rows(request: str, *batch: tuple[str, int, int], **more: Any) -> RequestRows:
    """Return the rows of a request in a batch of (id, tokens, position)."""
    requests = [{"id": name, "tokens": tokens, "position": position} for name, tokens, position in batch]
    found = request_rows({"scheduled_tokens": {"requests": requests, **more}}, RequestOption(request))
    assert found is not None
    return found


def cut(begin: int, end: int, *rest: int) -> Ranges:
    return (slice(begin, end), *(slice(0, length) for length in rest))


BATCH = rows("a", ("b", 3, 0), ("a", 5, 0), ("c", 1, 8))  # 9 rows, contexts of 3 + 5 + 9
ALONE = rows("a", ("a", 5, 0))
LATER = rows("a", ("b", 1, 3), ("a", 4, 5))  # 5 rows, contexts of 4 + 9
WHOLE = rows("a", ("a", 12, 0))


@pytest.mark.parametrize(
    ("target", "golden", "shapes", "ranges"),
    [
        (BATCH, ALONE, ((9, 16), (5, 16)), (cut(3, 8, 16), None)),
        (BATCH, ALONE, ((9, 16), (1, 5, 16)), (cut(3, 8, 16), None)),
        (BATCH, ALONE, ((1, 9, 16), (5, 16)), ((slice(0, 1), *cut(3, 8, 16)), None)),
        (BATCH, ALONE, ((2, 9, 17), (2, 5, 5)), ((slice(0, 2), slice(3, 8), slice(3, 8)), None)),
        (BATCH, ALONE, ((3, 16), (1, 16)), (cut(1, 2, 16), None)),  # the last token of each request
        (BATCH, ALONE, ((3, 16), (1, 5, 16)), (cut(1, 2, 16), (slice(0, 1), slice(4, 5), slice(0, 16)))),
        (LATER, WHOLE, ((5, 16), (12, 16)), (cut(1, 5, 16), cut(5, 9, 16))),
        (LATER, WHOLE, ((5, 13), (12, 12)), ((slice(1, 5), slice(4, 13)), (slice(5, 9), slice(0, 9)))),
        (ALONE, ALONE, ((5, 16), (5, 16)), (None, None)),
    ],
)
def test_the_part_of_a_request(
    target: RequestRows, golden: RequestRows, shapes: tuple[tuple[int, ...], tuple[int, ...]], ranges: Any
) -> None:
    match = TokenAxes(target, golden).match(*shapes)
    assert match is not None and [part.ranges for part in match.choices] == [ranges]


def test_the_token_of_each_row() -> None:
    assert TokenAxes(BATCH, ALONE).match((9, 16), (5, 16)) == Match((Part((cut(3, 8, 16), None), TokenAxis(0, 0)),))
    later = TokenAxes(LATER, WHOLE).match((2, 5, 8), (2, 12, 8))
    assert later is not None and later.choices[0].tokens == TokenAxis(1, 5)
    one = TokenAxes(rows("a", ("a", 1, 7)), WHOLE).match((1, 16), (1, 12, 16))
    assert one is not None and one.choices[0].tokens == TokenAxis(None, 7)


def test_other_axes_stay() -> None:
    axes = TokenAxes(BATCH, ALONE)
    assert axes.match((9, 9), (9, 9)) is None  # a width of 9, on both sides
    assert axes.match((96, 4), (96, 4)) is None
    assert axes.match((9, 16), (5, 15)) is None


def test_padding_for_a_graph() -> None:
    axes = TokenAxes(BATCH.padded_to(16), ALONE.padded_to(8))
    for shapes in (((16, 4), (8, 4)), ((9, 4), (8, 4)), ((16, 4), (5, 4))):
        match = axes.match(*shapes)
        assert match is not None and (match.choices[0].ranges[0] or ())[0] == slice(3, 8)
    assert TokenAxes(BATCH, ALONE).match((16, 4), (8, 4)) is None


def test_no_common_token() -> None:
    match = TokenAxes(rows("a", ("a", 5, 0)), rows("a", ("a", 12, 0))).match((1, 16), (1, 16))
    assert match is not None and match.apart  # both are last tokens, of other positions


def test_a_batch_as_long_as_another_axis_leaves_the_choice() -> None:
    """(tokens, width), (width, tokens) or (tokens, tokens): both sides have 9 of each."""
    left, right = rows("a", ("b", 3, 0), ("a", 5, 0), ("c", 1, 3)), rows("a", ("a", 5, 0), ("b", 4, 2))
    match = TokenAxes(left, right).match((9, 9), (9, 9))
    own, other, whole = slice(3, 8), slice(0, 5), slice(0, 9)
    assert match is not None and [part.ranges for part in match.choices] == [
        ((own, own), (other, other)),
        ((own, whole), (other, whole)),
        ((whole, own), (whole, other)),
    ]


def test_rows_that_were_cut_while_they_were_recorded() -> None:
    only = rows("a", ("b", 3, 0), ("a", 5, 0), only="a")
    match = TokenAxes(only, ALONE).match((5, 16), (1, 5, 16))
    assert match is not None and match.choices == (Part((None, None), TokenAxis(0, 0)),)
    whole = TokenAxes(only, ALONE).match((2, 8), (2, 5))  # tokens were not in axis 0
    assert whole is not None and whole.choices[0].ranges == ((slice(0, 2), slice(3, 8)), None)
