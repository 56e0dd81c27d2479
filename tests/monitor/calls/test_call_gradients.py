"""The gradients of a call that arrive one by one are reported together, in the places of the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msprobe.monitor.calls.call_gradients import CallGradients


class Reports:
    """Keeps what is reported (implements ``ModuleReports``)."""

    def __init__(self) -> None:
        self.backwards: list[tuple[str, list[Any], list[Any]]] = []

    def forward(self, module: str, kind: str, values: Sequence[Any]) -> None:
        raise AssertionError("no call is reported")

    def backward(self, module: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.backwards.append((module, list(inputs), list(outputs)))


def test_gradients_are_reported_when_the_last_has_come() -> None:
    reports = Reports()
    call = CallGradients(reports, "fc", ([0, None, {"key": 1}], {}), 1)
    call.expect(2)
    call.grad_output(1, "second")
    call.grad_input(1, "of key")
    assert reports.backwards == []
    call.grad_inputs({0: "of first"})
    assert reports.backwards == [("fc", ["of first", "of key"], [None, "second"])]


def test_another_backward_pass_is_another_report() -> None:
    reports = Reports()
    call = CallGradients(reports, "fc", ([None], {}), 1)
    call.grad_output(0, 1)
    call.grad_inputs({})
    call.whole([2], {})
    assert reports.backwards == [("fc", [None], [1]), ("fc", [None], [2])]
