"""Handles of collectives report once when they are waited for, and the line is that of the program."""

from __future__ import annotations

import json
import sys

from msprobe.monitor.calls.collective_calls import Waited, calling_line


class Handle:
    """A handle of a framework."""

    done = False

    def wait(self, timeout: float) -> float:
        self.done = True
        return timeout


def test_a_handle_reports_once_after_it_was_waited_for() -> None:
    handle, said = Handle(), list[bool]()
    waited = Waited(handle, lambda: said.append(handle.done))
    assert not waited.done and waited.wait(2.0) == 2.0 and waited.wait(timeout=3.0) == 3.0
    assert said == [True]


def wrapper() -> str:
    return calling_line("/a/package/of/a/framework")


def test_the_line_is_that_of_the_program() -> None:
    number = sys._getframe().f_lineno + 1
    assert wrapper() == f"test_collective_calls.py[{number}]"


def test_lines_of_the_framework_are_passed_over() -> None:
    lines: list[str] = []

    def collective() -> None:
        lines.append(calling_line(json.__path__[0]))

    class Odd:
        """The encoder of json, whose frames lie between, asks for its items."""

    json.dumps(Odd(), default=lambda one: collective())
    assert lines == [f"test_collective_calls.py[{sys._getframe().f_lineno - 1}]"]
