"""The gradients of one call come from several nodes, in any order, and are received once."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record.backward import CallGradients, gradient_at
from msprobe.core.dump.record.error_boundary import ErrorLog


class Received:
    """Implements ``GradientReceiver``: what it got, in order, and whether recording was quiet meanwhile."""

    def __init__(self, thread: ThreadState) -> None:
        self.errors = ErrorLog(None)
        self.outputs: dict[int, Any] = {}
        self.inputs: list[dict[int, Any]] = []
        self.early: list[tuple[int, Any]] = []
        self._thread = thread

    def expect(self, outputs: int) -> None:
        raise AssertionError("called by the tap")

    def whole(self, grad_outputs: Sequence[Any], grad_inputs: Mapping[int, Any]) -> None:
        raise AssertionError("called by the tap")

    def grad_output(self, position: int, gradient: Any) -> None:
        assert self._thread.busy
        self.outputs[position] = gradient

    def grad_input(self, slot: int, gradient: Any) -> None:
        assert self._thread.busy
        self.early.append((slot, gradient))

    def grad_inputs(self, gradients: Mapping[int, Any]) -> None:
        assert self._thread.busy
        self.inputs.append(dict(gradients))


FIRST, SECOND = 1, 2


def call(feeding: tuple[int, ...], targets: int = 1) -> tuple[Received, CallGradients, ThreadState]:
    thread = ThreadState()
    received = Received(thread)
    return received, CallGradients(received, thread, feeding, targets, operator.add), thread


def test_a_gradient_that_one_node_brings_is_not_held_until_the_others_have_run() -> None:
    thread = ThreadState()
    received = Received(thread)
    gradients = CallGradients(received, thread, (FIRST, SECOND), 1, operator.add, single=(1,))
    first, second = gradients.after(FIRST, [(0, 0), (1, 1)]), gradients.after(SECOND, [(0, 0)])
    gradients.before([(0, 0)], [])((1,))
    first((2, 7), ())
    assert (received.early, received.inputs) == ([(1, 7)], [])
    second((3,), ())
    assert received.inputs == [{0: 5}]


def test_two_uses_of_one_argument_add_up_and_a_second_backward_starts_anew() -> None:
    received, gradients, thread = call((FIRST, SECOND))
    first, second = gradients.after(FIRST, [(0, 0), (1, 1)]), gradients.after(SECOND, [(0, 0)])
    made = gradients.before([(0, 0)], [])
    for factor in (1, 10):
        made((factor,))
        first((2 * factor, None), ())
        assert len(received.inputs) == (0 if factor == 1 else 1)
        second((3 * factor,), ())
    assert received.inputs == [{0: 5}, {0: 50}]
    assert received.outputs == {0: 10}
    assert not thread.busy


@pytest.mark.parametrize("order", list(permutations(range(2))), ids=str)
def test_without_feeding_nodes_the_last_output_ends_it(order: tuple[int, ...]) -> None:
    received, gradients, _ = call((), targets=2)
    hooks = [gradients.before([(0, k)], [(0, k)]) for k in range(2)]
    for k in order:
        assert received.inputs == []
        hooks[k]((k,))
    assert received.inputs == [{0: 0, 1: 1}]


def test_what_cannot_be_added_is_noted_and_never_raised() -> None:
    received, gradients, thread = call((FIRST,))
    gradients.after(FIRST, [(0, 0), (1, 0)])((1, "x"), ())
    assert received.errors.count == 1
    assert received.inputs == [{0: 1}]
    assert not thread.busy


@pytest.mark.parametrize(
    ("given", "position", "expected"),
    [
        pytest.param((1, 2), 1, 2, id="tuple"),
        pytest.param([1], 0, 1, id="list"),
        pytest.param((1,), 3, None, id="past-the-end"),
        pytest.param(7, 0, 7, id="single"),
        pytest.param(7, 1, None, id="single-past-the-end"),
    ],
)
def test_where_a_gradient_stands(given: Any, position: int, expected: Any) -> None:
    assert gradient_at(given, position) == expected
