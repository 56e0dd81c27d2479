"""Positions of tokens are counted per request, over all starts."""

from __future__ import annotations

import pytest

import msprobe.core.dump.record.request_tokens as module
from msprobe.core.dump.record.request_tokens import RequestTokens
from msprobe.core.errors import MsprobeException


def positions(counted: RequestTokens) -> dict[str, tuple[int, int]]:
    batch = counted.batch(None)
    assert batch is not None
    return {one["id"]: (one["position"], one["tokens"]) for one in batch["requests"]}


def test_positions_go_on_from_step_to_step() -> None:
    counted = RequestTokens()
    assert counted.count({"a": 3, "b": 2}, None) == {"a": 3, "b": 2}
    counted.count({"b": 1}, None)
    counted.count({"b": 1, "a": 4, "c": 1}, None)
    assert positions(counted) == {"b": (3, 1), "a": (3, 4), "c": (0, 1)}


def test_what_came_before_can_be_told() -> None:
    counted = RequestTokens()
    counted.count({"a": 2}, {"a": 10, "other": 3})
    assert positions(counted) == {"a": (10, 2)}
    counted.count({"a": 1}, None)
    assert positions(counted) == {"a": (12, 1)}


def test_a_start_without_requests_has_no_batch() -> None:
    counted = RequestTokens()
    counted.count({"a": 2}, None)
    assert counted.batch("a") == {"requests": [{"id": "a", "tokens": 2, "position": 0}], "only": "a"}
    counted.count(None, None)
    assert counted.batch(None) is None


def test_the_oldest_counts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_REQUESTS", 2)
    counted = RequestTokens()
    for name in "abac":
        counted.count({name: 1}, None)
    counted.count({"a": 1, "b": 1, "c": 1}, None)
    assert positions(counted) == {"a": (2, 1), "b": (0, 1), "c": (1, 1)}


@pytest.mark.parametrize("wrong", [3, {"a": "b"}, {"a": -1}, {1: 1}])
def test_wrong_numbers_are_named(wrong: object) -> None:
    with pytest.raises(MsprobeException, match="computed_tokens"):
        RequestTokens().count({"a": 1}, wrong)
