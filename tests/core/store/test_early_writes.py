"""Early records are counted when they are written, and until their jobs are done."""

from __future__ import annotations

from msprobe.core.store.sink import EarlyWrites


def test_records_are_complete_when_their_jobs_are_done() -> None:
    early = EarlyWrites()
    early.add(3, put=10)
    early.add(5, put=12)
    assert [early.take_complete(done) for done in (9, 10, 11)] == [0, 3, 0]
    assert early.count == 2
    early.add(6, put=20)
    assert early.take_complete(12) == 2
    assert early.take_complete(20) == 4
    assert early.count == 0


def test_records_without_jobs_are_complete_with_those_before_them() -> None:
    early = EarlyWrites()
    early.add(2, put=4)
    early.add(7, put=4)
    assert early.take_complete(4) == 7


def test_nothing_is_left_when_all_was_written() -> None:
    early = EarlyWrites()
    early.add(3, put=1)
    early.clear()
    assert (early.count, early.take_complete(1)) == (0, 0)
