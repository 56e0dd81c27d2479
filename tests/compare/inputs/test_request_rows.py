"""The rows of a request in a batch, and how an option names it."""

from __future__ import annotations

import pytest

from msprobe.compare.inputs.request_rows import RequestOption, parse_request, request_rows
from msprobe.core.errors import MsprobeException

HEADER = {
    "scheduled_tokens": {
        "requests": [
            {"id": "cmpl-b", "tokens": 3, "position": 4},
            {"id": "cmpl-a", "tokens": 2, "position": 0},
            {"id": "cmpl-c", "tokens": 0, "position": 9},
        ]
    }
}


@pytest.mark.parametrize(
    ("text", "option"),
    [("a", ("a", 0)), ("a@7", ("a", 7)), ("user@host", ("user@host", 0)), ("user@host@2", ("user@host", 2))],
)
def test_an_option_names_a_request(text: str, option: tuple[str, int]) -> None:
    assert parse_request(text, "target_request") == RequestOption(*option)


@pytest.mark.parametrize("wrong", ["", 3, None])
def test_a_wrong_option_is_one_line(wrong: object) -> None:
    with pytest.raises(MsprobeException, match=r"golden_request .*: give the id of a request"):
        parse_request(wrong, "golden_request")


def test_rows_and_positions() -> None:
    found = request_rows(HEADER, RequestOption("a", 6))
    assert found is not None
    assert (found.id, found.before, found.tokens, found.packed, found.number) == ("cmpl-a", 3, 2, 5, 1)
    assert (found.position, found.stop) == (6, 8)
    assert (found.contexts_before, found.contexts, found.longest) == (7, 24, 9)


@pytest.mark.parametrize("name", ["c", "d", "cmpl"])
def test_a_step_without_tokens_of_the_request(name: str) -> None:
    assert request_rows(HEADER, RequestOption(name)) is None
    assert request_rows({}, RequestOption("a")) is None
    for damaged in ([], {}, {"requests": []}, {"requests": 3}, {"requests": [{"id": "a", "tokens": "1"}]}):
        assert request_rows({"scheduled_tokens": damaged}, RequestOption("a")) is None
