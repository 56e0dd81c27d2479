"""Gradients that one side alone computes and that train nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.first_divergence import first_divergence
from msprobe.compare.comparison import compare_dumps
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, gradient, module, tensor, with_loss, write

LAYER = "Module.layer.Linear.forward.0"
ADD, EMBEDDING = "Tensor.__add__.0.forward", "Module.embedding.Embedding.forward.0"


def named(
    folder: Path, target: dict[str, Any], golden: dict[str, Any], trained: tuple[str, ...] = ("layer.weight",)
) -> str | None:
    """Return the call that is named; ``trained`` are the parameters that an optimizer has."""
    dumps = []
    for side, data in (("t", target), ("g", golden)):
        file = write(folder / side, data) / "dump.json"
        step = {"optimizer": 0, "class": "SGD", "groups": [{"lr": 0.1, "parameters": list(trained)}]}
        file.write_text(json.dumps({**json.loads(file.read_text()), "optimizers": [step] if trained else []}))
        dumps.append(load_dump(find_dumps(folder / side)[0]))
    found = first_divergence(compare_dumps(*dumps))
    return None if found is None else found.description.target or found.description.golden


def biased(*, required: bool, weight: float = 3.0) -> dict[str, Any]:
    """Run a layer and add a tensor that requires a gradient or not."""
    backward = {
        ADD.replace("forward", "backward"): gradient([tensor(1.0)], [tensor(1.0), tensor(1.0) if required else None]),
        LAYER.replace("forward", "backward"): gradient([tensor(1.0)], [tensor(0.5)]),
    }
    return {
        LAYER: module([tensor(1.0)], [tensor(7.0)], weight=tensor(2.0)),
        ADD: call([tensor(7.0), tensor(0.0, requires_grad=required)], [tensor(8.0)]),
        **with_loss(backward, weight),
    }


def test_the_gradient_of_a_constant_is_needless(tmp_path: Path) -> None:
    assert named(tmp_path, biased(required=True), biased(required=False)) is None
    assert named(tmp_path / "turned", biased(required=False), biased(required=True)) is None


def test_a_gradient_that_trains_is_lost(tmp_path: Path) -> None:
    target, golden = biased(required=True), biased(required=False, weight=3.1)
    assert named(tmp_path, target, golden) == ADD.replace("forward", "backward")
    assert named(tmp_path / "turned", golden, target) == ADD.replace("forward", "backward")


def embedded(*, required: bool, recorded: bool = True) -> dict[str, Any]:
    """Run a frozen embedding, whose result requires a gradient or not, a frozen addition, and a trained layer."""
    own = [tensor(4.0, requires_grad=required)]
    frozen = tensor(2.0, requires_grad=False)
    data = {
        EMBEDDING: module([tensor(9.0, dtype="int64", requires_grad=False)], own, weight=frozen),
        ADD: call(own, [tensor(5.0, requires_grad=required)]),
        LAYER: module([tensor(5.0, requires_grad=required)], [tensor(7.0)], weight=tensor(2.0)),
        **with_loss(),
        LAYER.replace("forward", "backward"): gradient([tensor(1.0)], [tensor(0.5) if required else None]),
    }
    if required:
        data[ADD.replace("forward", "backward")] = gradient([tensor(0.5)], [tensor(0.5)])
    return data if recorded else {name: body for name, body in data.items() if "parameters_grad" not in name}


def test_gradients_before_the_first_trained_parameter_are_needless(tmp_path: Path) -> None:
    assert named(tmp_path, embedded(required=True), embedded(required=False)) is None
    assert named(tmp_path / "turned", embedded(required=False), embedded(required=True)) is None


@pytest.mark.parametrize(
    ("recorded", "trained"), [(False, ("layer.weight",)), (True, ()), (True, ("layer.weight", "prompt"))]
)
def test_without_the_gradients_of_all_trained_parameters_nobody_knows(
    tmp_path: Path, recorded: bool, trained: tuple[str, ...]
) -> None:
    target, golden = embedded(required=True, recorded=recorded), embedded(required=False, recorded=recorded)
    assert named(tmp_path, target, golden, trained) == LAYER.replace("forward", "backward")
