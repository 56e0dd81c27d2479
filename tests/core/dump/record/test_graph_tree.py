"""Calls that do not depend on each other stand as the source calls them, where that can be told."""

from __future__ import annotations

import pytest

from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.dump.record.graph_tree import GraphCall, call_around, in_order


def call(name: str) -> GraphCall:
    return GraphCall(CallRecord(name, None), None, True, True, f"Cell.block.{name}", ())


@pytest.mark.parametrize(
    ("began", "source", "expected"),
    [
        (["value", "key", "query"], ["query", "key", "value"], ["query", "key", "value"]),
        (["act", "out", "act", "inp"], ["inp", "act", "out", "act"], ["inp", "act", "out", "act"]),
        (["value", "key"], ["reshape", "key", "value"], ["key", "value"]),
        (["out", "step", "step"], ["step", "out"], ["out", "step", "step"]),
        (["key", "other"], ["other"], ["key", "other"]),
        (["value", "key"], [], ["value", "key"]),
    ],
    ids=["branches", "part-twice", "method-that-is-no-part", "loop", "through-a-method", "no-source"],
)
def test_in_order(began: list[str], source: list[str], expected: list[str]) -> None:
    assert [found.record.name for found in in_order([call(name) for name in began], source)] == expected


def begun(path: str, *inside: str, running: bool = True) -> GraphCall:
    """A call of ``path`` whose source calls ``act`` twice, and what was called inside of it so far."""
    found = GraphCall(CallRecord(path, None), None, True, True, path, ("act", "join", "act"), running)
    found.inside = [GraphCall(CallRecord(part, None), None, True, True, part, ()) for part in inside]
    return found


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([begun("net"), begun("net.inner")], 1),
        ([begun("net.inner"), begun("net.inner")], 1),
        ([begun("net.inner"), begun("net.inner", running=False)], 0),
        ([begun("net"), begun("net.inner", "net.inner.act", "net.inner.join", running=False)], 1),
        ([begun("net"), begun("net.inner", "net.inner.act", "net.inner.act", running=False)], 0),
        ([begun("net.inn"), begun("other")], None),
    ],
    ids=["nearest", "latest", "running", "over-before-its-part-is-told", "over-and-complete", "none"],
)
def test_the_call_around(calls: list[GraphCall], expected: int | None) -> None:
    by_path: dict[str, list[GraphCall]] = {}
    for one in calls:
        by_path.setdefault(one.path, []).append(one)
    assert call_around("net.inner.act", by_path) is (None if expected is None else calls[expected])
