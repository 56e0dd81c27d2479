"""Waiting records that are in the journal already: counted in as they are shown, out as their work is done."""

from __future__ import annotations

from msprobe.core.store.shown import Shown


def test_records_are_complete_when_their_jobs_are_done() -> None:
    shown = Shown()
    shown.add(3, put=10)
    shown.add(5, put=12)
    assert [shown.completed(done) for done in (9, 10, 11)] == [0, 3, 0]
    assert shown.count == 2
    shown.add(6, put=20)
    assert shown.completed(12) == 2
    assert shown.completed(20) == 4
    assert shown.count == 0


def test_records_without_jobs_are_complete_with_those_before_them() -> None:
    shown = Shown()
    shown.add(2, put=4)
    shown.add(7, put=4)
    assert shown.completed(4) == 7


def test_nothing_is_left_when_all_was_written() -> None:
    shown = Shown()
    shown.add(3, put=1)
    shown.forget()
    assert (shown.count, shown.completed(1)) == (0, 0)
