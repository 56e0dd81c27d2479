"""The token gate: when the observer is shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.dump.session.start_filters import TokenRange

OBSERVER: Any = object()


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 12))
def test_the_observer_is_there_exactly_in_the_range(first: int, more: int, calls: int) -> None:
    current = CurrentObserver()
    gate = TokenRange(first, first + more, current)
    gate.hold(OBSERVER)
    shown = [current.observer is OBSERVER]
    for _ in range(calls):
        gate.next_token()
        shown.append(current.observer is OBSERVER)
    assert shown == [first <= token <= first + more for token in range(-1, calls)]


def test_calls_count_on_while_nothing_is_held() -> None:
    current = CurrentObserver()
    gate = TokenRange(2, 2, current)
    for _ in range(3):
        gate.next_token()
    assert current.observer is None
    gate.hold(OBSERVER)
    assert current.observer is OBSERVER


def test_close_removes_the_hook_once() -> None:
    removed: list[int] = []
    gate = TokenRange(0, 1, CurrentObserver())
    gate.count_calls(lambda model, report: lambda: removed.append(1), None)
    gate.close()
    gate.close()
    assert removed == [1]
