"""A dump becomes facts: parameters by their plain names, calls, collectives and data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe.check.facts.read_step import read_step
from msprobe.check.facts.step_facts import StepFacts
from msprobe.core.store.reader import find_dumps


def node(norm: float, *shape: int, needs: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), "Max": norm, "Min": -norm, "Mean": 0.1,
        "Norm": norm, "Projection": norm / 3, "requires_grad": needs, **more,
    }  # fmt: skip


def read(folder: Path, data: dict[str, Any], construct: dict[str, Any] | None = None, **header: Any) -> StepFacts:
    folder.mkdir(exist_ok=True)
    document = {"task": "statistics", "level": "mix", "framework": "pytorch", **header, "data": data}
    (folder / "dump.json").write_text(json.dumps(document))
    (folder / "construct.json").write_text(json.dumps(construct or {}))
    (place,) = find_dumps(folder)
    return read_step(place, 3)


LINEAR = {
    "Functional.linear.0.forward": {
        "input_args": [node(2.0, 6, 8), node(1.0, 4, 8, needs=True), None], "input_kwargs": {},
        "output": [node(3.0, 6, 4, needs=True)],
    },
    "Module.module.fc.Linear.forward.0": {
        "input_args": [node(2.0, 6, 8)], "input_kwargs": {}, "training": True, "autograd": "grad",
        "output": [node(3.0, 6, 4, needs=True)], "parameters": {"weight": node(1.0, 4, 8, needs=True)},
    },
    "Functional.linear.0.backward": {"input": [node(0.5, 6, 4)], "output": [node(0.25, 6, 8), node(0.125, 4, 8)]},
    "Module.module.fc.Linear.parameters_grad.0": {"weight": [node(0.125, 4, 8)]},
}  # fmt: skip
PARENTS = {"Functional.linear.0.forward": "Module.module.fc.Linear.forward.0"}


def test_parameters_have_the_names_of_the_model_without_wrappers(tmp_path: Path) -> None:
    facts = read(tmp_path, LINEAR, PARENTS)
    parameter = facts.parameters["fc.weight"]
    assert (parameter.requires_grad, parameter.called, parameter.read, parameter.live) == (True, True, True, True)
    assert parameter.used is not None and parameter.used.norm == 1.0
    assert [one.norm for one in facts.gradients["fc.weight"]] == [0.125]
    assert (facts.rank, facts.has_backward) == (3, True)


def test_tied_names_are_one_parameter(tmp_path: Path) -> None:
    present = [{"name": "emb.weight", "value": node(1.5, 4, 8, needs=True), "has_gradient": True}]
    shared = [["emb.weight", "fc.weight"]]
    facts = read(tmp_path, LINEAR, PARENTS, shared_storage=shared, model_parameters=present)
    assert list(facts.parameters) == ["emb.weight"]
    assert facts.parameters["emb.weight"].left is not None
    assert list(facts.gradients) == ["emb.weight"]


def test_what_no_call_made_is_the_data(tmp_path: Path) -> None:
    facts = read(tmp_path, LINEAR, PARENTS)
    assert [(one.consumer, one.value.shape) for one in facts.batch] == [("Functional.linear.0.forward.input.0", (6, 8))]


def test_functions_and_collectives(tmp_path: Path) -> None:
    reduce = {
        "input_args": [node(1.0, 4)], "input_kwargs": {"op": {"type": "str", "value": "sum"}}, "output": [node(2.0, 4)],
        "group_id": "g",
    }  # fmt: skip
    groups = [{"group_id": "g", "ranks": [0, 3]}]
    facts = read(tmp_path, {**LINEAR, "Distributed.all_reduce.0.forward": reduce}, PARENTS, process_groups=groups)
    (function,) = facts.functions
    assert (function.function, function.module, function.given, function.evaluation) == (
        "linear", "module.fc", "float32", False
    )  # fmt: skip
    (collective,) = facts.collectives
    assert (collective.function, collective.group, collective.in_forward) == ("all_reduce", (0, 3), False)


def test_updates_follow_the_header(tmp_path: Path) -> None:
    optimizers = [
        {"optimizer": 0, "class": "SGD", "stack": ["f"], "groups": [{"lr": 0.1, "parameters": ["fc.weight"]}]}
    ]
    calls = [
        {"call": "kept_gradients", "after": 1, "optimizer": 0, "count": 1, "parameters": ["fc.weight"]},
        {"call": "optimizer_step", "after": 1, "optimizer": 0, "no_gradient": ["x"],
         "gradients": [{"name": "fc.weight", "value": node(0.5, 4, 8)}]},
    ]  # fmt: skip
    (update,) = read(tmp_path, LINEAR, PARENTS, optimizers=optimizers, training_calls=calls).updates
    assert (update.kind, update.rates, update.parameters, update.kept) == (
        "SGD",
        (0.1,),
        ("fc.weight",),
        ("fc.weight",),
    )
    assert update.gradients is not None and update.gradients["fc.weight"].norm == 0.5
    assert update.no_gradient == ("x",)


def test_infinity_is_noticed(tmp_path: Path) -> None:
    data = {"Torch.log.0.forward": {"input_args": [node(1.0, 2)], "output": [node(float("inf"), 2)]}}
    assert read(tmp_path, data).entries == 1
