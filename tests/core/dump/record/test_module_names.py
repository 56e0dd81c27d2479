"""Modules are known by identity, as long as they live, and those of one name are numbered together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msprobe
from msprobe.core.dump.record.module_names import ModuleNames


class Layer:
    def __init__(self, *parameters: str) -> None:
        self.parameters = [(key, object()) for key in parameters]


def parameters(layer: Layer) -> list[tuple[str, Any]]:
    return layer.parameters


def test_a_module_is_known_until_it_dies() -> None:
    sites, layer = ModuleNames(), Layer("weight")
    site = sites.register("Module.fc.Layer", layer, parameters)
    assert sites.get(layer) is site
    assert sites.get(Layer()) is None
    assert [key for key, _ in site.parameters()] == ["weight"]
    del layer
    assert sites.items() == []
    assert list(site.parameters()) == []


def test_what_is_known_anew_is_not_forgotten_with_its_older_entry() -> None:
    sites, layer = ModuleNames(), Layer()
    sites.register("Module.0.fc.Layer", layer, parameters)
    site = sites.register("Module.fc.Layer", layer, parameters)
    assert sites.get(layer) is site
    assert [site.stem for _, site in sites.items()] == ["Module.fc.Layer"]


def test_two_of_one_name_count_together_and_start_anew_together() -> None:
    sites, layers = ModuleNames(), [Layer(), Layer()]
    first, second = (sites.register("Module.fc.Layer", layer, parameters) for layer in layers)
    assert [next(first.calls), next(second.calls), next(first.calls)] == [0, 1, 2]
    sites.reset()
    assert [next(second.calls), next(first.calls)] == [0, 1]


def test_the_first_goes_on_numbering_when_its_module_is_gone() -> None:
    sites, layers = ModuleNames(), [Layer(), Layer()]
    first, second = (sites.register("Module.fc.Layer", layer, parameters) for layer in layers)
    del layers[0]
    assert next(first.calls) == 0
    sites.reset()
    assert next(second.calls) == 0


def test_no_python_runs_when_a_module_dies() -> None:
    """Python drops what a handler of the program raises in the callback of a weak reference."""
    sites, model = ModuleNames(), Layer()
    sites.register("Module.x.Layer", model, parameters)
    ran: list[str] = []
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_filename) if event == "call" else None)
    del model
    sys.setprofile(None)
    own = str(Path(msprobe.__file__).parent)
    assert not [path for path in ran if path.startswith(own)]  # a compiler has callbacks of its own
    assert not sites.items()
