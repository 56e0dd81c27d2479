"""Calls told from the order of what a device wrote."""

from __future__ import annotations

from msprobe.adapters.mindspore.compile.value_transport import CallOrder


def test_the_innermost_running_call_of_a_cell_has_the_value() -> None:
    calls = CallOrder()
    calls.began(site=0, call=11)
    calls.began(site=1, call=12)
    assert (calls.running(0), calls.running(1), calls.running(2)) == (11, 12, 0)
    assert (calls.ended(1), calls.running(1), calls.ended(1)) == (12, 0, 0)


def test_gradients_come_to_the_last_call_first_at_every_place() -> None:
    calls = CallOrder()
    for call in (1, 2, 3):
        calls.began(0, call)
    assert [calls.for_gradient(0, place=5) for _ in range(4)] == [3, 2, 1, 0]
    assert calls.for_gradient(0, place=6) == 3
