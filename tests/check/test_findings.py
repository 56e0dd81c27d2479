"""Findings are told once, in the order in which they show, with all their ranks."""

from __future__ import annotations

from msprobe.check.findings import Finding, told_once


def test_one_subject_is_told_once_with_its_ranks() -> None:
    found = [
        Finding("b", "later", step=1, rank=0, module="m"),
        Finding("a", "first", step=0, rank=1, module="m", place=9),
        Finding("a", "again", step=2, rank=0, module="m"),
        Finding("c", "earlier in the step", step=0, rank=0, place=2, certainty="possible"),
    ]
    told = told_once(found)
    assert [(one.rule, one.reason) for one in told] == [("c", "earlier in the step"), ("a", "first"), ("b", "later")]
    assert told[1].ranks == (0, 1)
    assert [one.is_hint for one in told] == [True, False, False]
