"""Which tensors reach a backward pass, known again by their statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.check.facts.dataflow import mark_of
from msprobe.check.facts.step_facts import StepFacts
from msprobe.check.facts.tensors import tensor_of
from msprobe.core.store.record_walk import NO_DATA
from msprobe.trace.values import count_of, mark
from tests.check.facts.test_read_step import LINEAR, PARENTS, node, read


def test_a_view_has_the_mark_of_its_tensor() -> None:
    assert mark(node(2.0, 6, 8)) == mark(node(2.0, 48)) == mark_of(tensor_of(node(2.0, 8, 6)))
    assert mark(node(2.0, 6, 8)) != mark(node(2.0, 6, 9))
    assert count_of({"shape": [2, 3]}) == 6
    assert count_of({}) == 1


def test_tensors_without_numbers_are_not_taken_for_each_other() -> None:
    empty = [{"dtype": "torch.float32", "shape": [], "Max": None, "Min": None, "Norm": None, NO_DATA: True}] * 2
    one, other = map(dict, empty)
    assert mark(one) == mark(one) != mark(other)


def test_a_result_that_nobody_uses_reaches_no_backward_pass(tmp_path: Path) -> None:
    data = {name: body for name, body in LINEAR.items() if "backward" not in name}
    parameter = read(tmp_path, data, PARENTS).parameters["fc.weight"]
    assert (parameter.read, parameter.live) == (True, False)


def test_a_result_reaches_it_through_calls_without_gradients(tmp_path: Path) -> None:
    data = {name: body for name, body in LINEAR.items() if name != "Functional.linear.0.backward"}
    data["Torch.relu.0.forward"] = {"input_args": [node(3.0, 24)], "output": [node(2.5, 24, needs=True)]}
    data["Torch.relu.0.backward"] = {"input": [node(0.5, 24)], "output": [node(0.5, 24)]}
    assert read(tmp_path, data, PARENTS).parameters["fc.weight"].live


def _step(tmp_path: Path, weight: dict[str, Any]) -> StepFacts:
    function = {"input_args": [node(2.0, 6, 8), weight, None], "output": [node(3.0, 6, 4, needs=True)]}
    data = {"Functional.linear.9.forward": function, **LINEAR, "Functional.linear.9.backward": {"output": []}}
    name = "Module.module.fc.Linear.forward.0"
    data[name] = {**LINEAR[name], "input_args": [node(3.0, 24)]}
    return read(tmp_path, data, PARENTS)


def test_a_weight_of_no_module_that_a_module_gets_something_of_is_outside(tmp_path: Path) -> None:
    (found,) = _step(tmp_path / "outside", node(7.0, 4, 8, needs=True)).outside
    assert (found.call, found.value.norm) == ("Functional.linear.9.forward", 7.0)
    assert _step(tmp_path / "frozen", node(7.0, 4, 8)).outside == []
    assert _step(tmp_path / "known", LINEAR["Functional.linear.0.forward"]["input_args"][1]).outside == []


def test_a_scalar_is_known_among_arguments_that_are_no_numbers(tmp_path: Path) -> None:
    odd = 0.1234567891
    arguments = [node(2.0, 6, 8), {"type": "slice", "value": [0, 2, None]}, {"type": "float", "value": odd}]
    data = {
        "Torch.mul.0.forward": {"input_args": arguments, "output": [node(3.0, 6, 8, needs=True)]},
        "Torch.mul.0.backward": {"input": [node(0.5, 6, 8)], "output": [node(0.25, 6, 8)]},
    }
    present = [{"name": "scale", "value": node(odd, 1, needs=True), "has_gradient": False}]
    assert read(tmp_path, data, model_parameters=present).parameters["scale"].read
