"""Calls that do not depend on each other stand as the source calls them, where that can be told."""

from __future__ import annotations

import pytest

from msprobe.core.dump.graph_tree import GraphCall, in_order
from msprobe.core.dump.record import CallRecord


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
