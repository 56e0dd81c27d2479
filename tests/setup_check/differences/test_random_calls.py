"""Random calls: places that are the same although lines moved, and counts that differ."""

from __future__ import annotations

from msprobe.setup_check.differences.random_calls import compare_random
from msprobe.setup_check.document import RandomCall, RankCalls


def call(function: str = "torch.randn", count: int = 1, line: int = 5, code: str = "x = torch.randn(3)") -> RandomCall:
    """Return a call from one place."""
    return RandomCall(function=function, count=count, stack=[f"File /a/train.py, line {line}, in main, \n {code}"])


def levels(first: list[RandomCall], second: list[RandomCall]) -> list[tuple[int, int, str]]:
    """Return counts of both sides and the level of each row."""
    section = compare_random([RankCalls(rank=0, calls=first)], [RankCalls(rank=0, calls=second)])
    return [(row["bench_count"], row["cmp_count"], row["level"]) for row in section.rows]


def test_a_line_that_moved_is_the_same_place() -> None:
    assert levels([call()], [call(line=9, code="xx = torch.randn(3)")]) == [(1, 1, "pass")]


def test_counts_and_other_places() -> None:
    assert levels([call(count=2)], [call(count=3)]) == [(2, 3, "error")]
    assert levels([call()], [call(code="dropout(everything_else, p)")]) == [(1, 0, "error"), (0, 1, "error")]
    assert levels([call()], [call("torch.rand")]) == [(1, 0, "error"), (0, 1, "error")]


def test_stacks_without_the_usual_form() -> None:
    odd = RandomCall(function="a", count=1, stack=["The call stack is not available."])
    assert levels([odd], [odd]) == [(1, 1, "pass")]
