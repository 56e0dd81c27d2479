"""What the tool leaves alone: everything outside start and stop, and the model at all times."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from msprobe.adapters.pytorch.tensors.unwritten import COPIERS, MAKERS
from msprobe.core.capture.partial_writes import WRITERS
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


def attributes() -> dict[str, Any]:
    """Every attribute of the places in which functions are wrapped."""
    places = {
        "torch": torch,
        "functional": F,
        "Tensor": torch.Tensor,
        "_VF": torch._VF,
        "linalg": torch.linalg,
        "Module": nn.Module,
        "clip_grad": torch.nn.utils.clip_grad,
        "utils": torch.nn.utils,
    }
    return {f"{place}.{name}": value for place, owner in places.items() for name, value in vars(owner).items()}


def changed(before: dict[str, Any]) -> set[str]:
    """Names whose value is another one; an inherited attribute that its owner now has itself counts too."""
    after = attributes()
    return {name for name in before.keys() | after.keys() if after.get(name, after) is not before.get(name, before)}


OF_MEMORY = {
    *(f"{owner.__name__}.{name}" for owner, names in MAKERS.items() for name in names),
    *(f"Tensor.{name}" for name in (*WRITERS, *COPIERS[torch.Tensor])),
}
"""What tells at every level whether memory is written."""


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_nothing_is_wrapped_outside_start_and_stop(bench: Any, level: str) -> None:
    model = Mlp()
    before = attributes()
    debugger = bench.open(level)
    assert changed(before) == set()
    debugger.start(model=model)
    assert changed(before)
    debugger.stop()
    assert changed(before) == set()
    debugger.start(model=model)
    debugger.step()
    debugger.stop()
    assert changed(before) == set()


def test_a_level_wraps_only_what_it_records(bench: Any) -> None:
    before = attributes()
    bench.open("L0").start(model=Mlp())
    awaited = set() if "torch._dynamo" in sys.modules else {"torch.compile"}  # nobody has compiled anything yet
    assert changed(before) == {"Module.__call__", "Module.zero_grad", *OF_MEMORY} | awaited
    bench.open("L1").start()
    names = changed(before)
    assert "Module.__call__" not in names
    assert {"functional.relu", "torch.relu", "Tensor.add"} <= names


def test_a_step_left_out_wraps_nothing(bench: Any) -> None:
    before = attributes()
    debugger = bench.open("mix", step=[3])
    debugger.start(model=Mlp())
    assert changed(before) == set()


def test_wrapped_functions_look_like_the_originals(bench: Any) -> None:
    original = F.relu
    bench.open("L1").start()
    assert F.relu is not original
    assert (F.relu.__name__, F.relu.__doc__, F.relu.__module__) == (
        original.__name__,
        original.__doc__,
        original.__module__,
    )


def test_a_copy_made_while_collecting_computes_with_its_own_weights(bench: Any) -> None:
    model = Mlp()
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(torch.ones(1, 4))
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert twin(torch.ones(1, 4)).tolist() == [[0.0, 0.0]]
    assert model(torch.ones(1, 4)).tolist() != [[0.0, 0.0]]
    debugger.stop()


def test_a_model_can_be_pickled_while_collecting(bench: Any) -> None:
    model = Mlp()
    debugger = bench.open("mix")
    debugger.start(model=model)
    twin = pickle.loads(pickle.dumps(model))
    assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))
    debugger.stop()


def test_the_model_carries_no_trace_of_the_tool(bench: Any) -> None:
    model = Mlp()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(torch.ones(1, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any(parameter._backward_hooks for parameter in model.parameters())


def test_hooks_of_the_user_run_as_ever(bench: Any) -> None:
    model = Mlp()
    seen: list[str] = []
    model.fc1.register_forward_hook(lambda module, args, result: seen.append("forward"))
    model.fc1.register_full_backward_hook(lambda module, before, after: seen.append("backward"))
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(torch.ones(1, 4, requires_grad=True)).sum().backward()
    debugger.stop()
    assert seen == ["forward", "backward"]


def test_a_dropped_model_is_freed(bench: Any) -> None:
    import gc
    import weakref

    model = Mlp()
    alive = weakref.ref(model)
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(torch.ones(1, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    del model
    gc.collect()
    assert alive() is None
