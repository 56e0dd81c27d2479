"""Calls in micro steps. What mindstudio-probe does was observed by running it on the same call trees."""

from __future__ import annotations

import pytest

from msprobe.core.naming.micro_steps import MicroSteps, Opening, OutermostCall, StepAndCall, number_outermost
from msprobe.core.naming.names import ApiName, ModuleName
from msprobe.core.naming.parser import parse_entry
from tests.trend.records import two_passes


def _place(steps: MicroSteps, name: str) -> StepAndCall | None:
    entry = parse_entry(name)
    assert isinstance(entry, (ApiName, ModuleName))
    return steps.find(entry)


@pytest.mark.parametrize(
    ("name", "placed"),
    [
        pytest.param("Module.Net.forward.1", (1, 0), id="the-root"),
        pytest.param("Module.layer.Lin.forward.1", (1, 0), id="a-module-in-it"),
        pytest.param("Functional.linear.5.forward", (0, 0), id="first-call"),
        pytest.param("Functional.linear.7.forward", (0, 1), id="second-call"),
        pytest.param("Functional.linear.9.forward", (1, 0), id="counted-anew"),
        pytest.param("Functional.linear.9.backward", (1, 0), id="backward-where-its-forward-is"),
        pytest.param("Functional.linear.8.backward", None, id="backward-of-nothing"),
        pytest.param("Tensor.add.0.forward", None, id="unknown"),
        pytest.param("Module.layer.Lin.parameters_grad", (0, 0), id="gradients-without-a-number"),
        pytest.param("Module.layer.Lin.parameters_grad.1", (1, 0), id="gradients-of-the-second-pass"),
        pytest.param("Module.other.Lin.parameters_grad.0", (0, 0), id="gradients-of-an-unknown-module"),
    ],
)
def test_place(name: str, placed: StepAndCall | None) -> None:
    steps = MicroSteps(two_passes()[1])
    assert steps.count == 2 and not steps.unlike_roots
    assert _place(steps, name) == placed


def test_calls_are_numbered_by_their_number_not_by_their_place_in_the_file() -> None:
    steps = MicroSteps(two_passes([(7, 5)])[1])
    assert [_place(steps, f"Functional.linear.{call}.forward") for call in (5, 7)] == [(0, 0), (0, 1)]


def test_a_repeated_forward_belongs_to_the_step_of_the_backward_that_repeats_it() -> None:
    tree = {
        **two_passes()[1],
        "Module.layer.Lin.backward.1": None,
        "Module.layer.Lin.forward.2": "Module.layer.Lin.backward.1",
        "Functional.linear.10.forward": "Module.layer.Lin.forward.2",
    }
    steps = MicroSteps(tree)
    assert _place(steps, "Module.layer.Lin.forward.2") == (1, 1)
    assert _place(steps, "Functional.linear.10.forward") == (1, 1)


def test_an_optimizer_opens_a_step_and_a_function_does_not() -> None:
    tree = {"Module.Net.forward.0": None, "optimizer.adam.0.forward": None, "Mint.sqrt.0.forward": None}
    steps = MicroSteps({**tree, "Mint.sqrt.1.forward": "optimizer.adam.0.forward"})
    assert steps.count == 2
    assert _place(steps, "Mint.sqrt.0.forward") is None
    assert _place(steps, "Mint.sqrt.1.forward") == (1, 0)


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param({"Functional.a.0.forward": "Functional.a.0.forward"}, id="its-own-caller"),
        pytest.param(
            {"Functional.a.0.forward": "Tensor.b.0.forward", "Tensor.b.0.forward": "Functional.a.0.forward"}, id="ring"
        ),
        pytest.param({"Functional.a.0.forward": ["Module.Net.forward.0"]}, id="a-list"),
        pytest.param({"Functional.a.0.forward": "Module.Net.forward.0"}, id="a-caller-that-is-not-there"),
        pytest.param({"": None, "Module..forward.0": 3}, id="names-that-are-none"),
    ],
)
def test_a_damaged_tree_holds_nothing(tree: dict[str, object]) -> None:
    assert _place(MicroSteps(tree), "Functional.a.0.forward") is None


def test_different_outermost_modules_are_told() -> None:
    assert MicroSteps({"Module.fc1.Linear.forward.0": None, "Module.fc2.Linear.forward.0": None}).unlike_roots


F, B, N = OutermostCall.FORWARD, OutermostCall.BACKWARD, OutermostCall.NEUTRAL


@pytest.mark.parametrize(
    ("calls", "opening", "numbers"),
    [
        pytest.param([F, B, F, B], Opening.EVERY_FORWARD, [0, 0, 1, 1], id="a-pass-each"),
        pytest.param([F, B, F, B], Opening.FORWARD_AFTER_BACKWARD, [0, 0, 1, 1], id="a-pass-each-graph"),
        pytest.param([F, F, B], Opening.EVERY_FORWARD, [0, 1, 1], id="two-modules"),
        pytest.param([F, F, B], Opening.FORWARD_AFTER_BACKWARD, [0, 0, 0], id="two-modules-graph"),
        pytest.param([N, F, N, B, N, F], Opening.FORWARD_AFTER_BACKWARD, [0, 0, 0, 0, 0, 1], id="functions-between"),
        pytest.param([B, F], Opening.EVERY_FORWARD, [0, 0], id="begins-with-a-backward-call"),
        pytest.param([], Opening.EVERY_FORWARD, [], id="no-calls"),
    ],
)
def test_outermost_calls_are_numbered_by_the_rule_of_their_file(
    calls: list[OutermostCall], opening: Opening, numbers: list[int]
) -> None:
    assert number_outermost(calls, opening) == numbers
