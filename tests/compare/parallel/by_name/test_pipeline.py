"""Stages of a pipeline become one model: layers and calls are numbered on, enclosing modules are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.compare.parallel.by_name.pipeline import merge_stages
from msprobe.core.store.reader import Dump, Place
from tests.compare import dumps


def _dump(data: dict[str, Any], construct: dict[str, Any] | None = None) -> Dump:
    return Dump(Place(Path("dump.json")), "statistics", "mix", "pytorch", data, construct=construct or {})


def _stage(*layers: int, first: int = 0) -> Dump:
    """A stage with layers of these numbers; values are those of the layers ``first`` and following of the model."""
    data: dict[str, Any] = {}
    construct: dict[str, Any] = {}
    for call, layer in enumerate(layers):
        module = f"Module.net.layers.{layer}.Layer.forward.0"
        data[f"Torch.add.{call}.forward"] = dumps.call([], [])
        data[module] = dumps.module([], [dumps.tensor(first + layer + 1)])
        construct[f"Torch.add.{call}.forward"] = module
        construct[module] = "Module.net.Net.forward.0"
    for call, layer in reversed(list(enumerate(layers))):
        data[f"Torch.add.{call}.backward"] = dumps.gradient([], [])
        data[f"Module.net.layers.{layer}.Layer.backward.0"] = dumps.gradient([], [])
    return _dump(data, construct)


def test_layers_and_calls_are_numbered_on() -> None:
    found = merge_stages([_stage(0, 1), _stage(0, 1, first=2)])
    assert list(found.data) == [
        *(name for n in range(4) for name in (f"Torch.add.{n}.forward", f"Module.net.layers.{n}.Layer.forward.0")),
        *(
            name
            for n in (3, 2, 1, 0)
            for name in (f"Torch.add.{n}.backward", f"Module.net.layers.{n}.Layer.backward.0")
        ),
    ]
    assert found.construct["Torch.add.3.forward"] == "Module.net.layers.3.Layer.forward.0"
    assert found.construct["Module.net.layers.3.Layer.forward.0"] == "Module.net.Net.forward.0"


def test_layers_that_count_on_by_themselves_stay() -> None:
    found = merge_stages([_stage(0, 1), _stage(2, 3)])
    modules = [name for name in found.data if "Layer.forward" in name]
    assert modules == [f"Module.net.layers.{n}.Layer.forward.0" for n in range(4)]


def test_layers_that_all_stages_share_stay() -> None:
    """Equal values on all stages: the list is not split, as embeddings that each stage computes."""
    found = merge_stages([_stage(0, 1), _stage(0, 1)])
    assert [name for name in found.data if "Layer.forward" in name] == [
        f"Module.net.layers.{n}.Layer.forward.0" for n in range(2)
    ]


def test_an_enclosing_module_takes_its_inputs_first_and_its_outputs_last() -> None:
    name, back = "Module.net.Net.forward.0", "Module.net.Net.backward.0"
    first = {name: dumps.module([dumps.tensor(1)], [dumps.tensor(2)], a=dumps.tensor(7))}
    last = {name: dumps.module([dumps.tensor(2)], [dumps.tensor(3)], b=dumps.tensor(8))}
    first[back] = dumps.gradient([dumps.tensor(5)], [dumps.tensor(6)])
    last[back] = dumps.gradient([dumps.tensor(4)], [dumps.tensor(5)])
    found = merge_stages([_dump(first), _dump(last)]).data
    assert found[name]["input_args"] == [dumps.tensor(1)] and found[name]["output"] == [dumps.tensor(3)]
    assert set(found[name]["parameters"]) == {"a", "b"}
    assert found[back]["input"] == [dumps.tensor(4)] and found[back]["output"] == [dumps.tensor(6)]


def test_one_stage_is_the_model() -> None:
    stage = _stage(0, 1)
    assert merge_stages([stage]) is stage
