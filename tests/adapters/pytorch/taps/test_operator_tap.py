"""Prefix Aten: the operators below the functions, recorded when a name in list or scope asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    is_in_torch_dispatch_mode,
)
from torch.utils.checkpoint import checkpoint

from msprobe.adapters.pytorch.tensors.operation_modes import outside_modes
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


class Log(TorchDispatchMode):
    """The names of all ATen operators, by torch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "aten":
            self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def train(model: nn.Module) -> list[torch.Tensor]:
    """One step of training; the gradients and the new weights."""
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters())
    loss = F.mse_loss(F.dropout(model(torch.rand(3, 4)), 0.5), torch.zeros(3, 2))
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    optimizer.step()
    return [*gradients, *(parameter.detach().clone() for parameter in model.parameters())]


def plain(body: Callable[[], Any]) -> list[str]:
    with Log() as log:
        body()
    return log.names


def operators(names: list[str]) -> list[str]:
    return [name.split(".")[1] for name in names if name.startswith("Aten.")]


CONFIGURATIONS = {
    "statistics": ("L1", "statistics", {"list": ["Aten."]}),
    "md5": ("L1", "statistics", {"list": ["Aten."], "summary_mode": "md5"}),
    "tensor": ("L1", "tensor", {"list": ["Aten."]}),
    "mix": ("mix", "statistics", {"list": ["Aten."]}),
    "sliced": ("L1", "statistics", {"list": ["Aten."], "slice": [{"end": 1}]}),
    "async_dump": ("L1", "tensor", {"list": ["Aten."]}),
    "precision": ("L1", "statistics", {"list": ["Aten."]}),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_exactly_what_torch_dispatches_is_recorded_and_nothing_of_the_tool(bench: Any, case: str) -> None:
    level, task, section = CONFIGURATIONS[case]
    twin, model = Mlp(), Mlp()
    expected = plain(lambda: train(twin))
    more = {"precision": "high" if case == "precision" else "low", "async_dump": case == "async_dump"}
    debugger = bench.open(level, task, section, **more)
    debugger.start(model)
    train(model)
    debugger.stop()
    assert operators(bench.read().names()) == expected


def test_measuring_other_calls_is_not_recorded(bench: Any) -> None:
    """Backward entries of modules and APIs are measured inside the backward pass, transposed tensors with torch."""
    model = Mlp()
    section = {"list": ["Aten.", "Module.", "Functional.", "Tensor.", "Torch."], "summary_mode": "md5"}
    debugger = bench.open("mix", "tensor", section, risk_level="ALL")
    debugger.start(model)
    train(model)
    debugger.stop()
    recorded = bench.read()
    assert recorded.names("Functional.linear.0.backward")
    kept = set(operators(recorded.names())) - set(plain(lambda: train(Mlp())))
    assert kept <= {"new_empty_strided", "copy_", "add"}  # autograd copies gradients that hooks hold


def test_training_is_bit_identical(bench: Any) -> None:
    torch.manual_seed(0)
    bare = train(Mlp())
    torch.manual_seed(0)
    model = Mlp()
    debugger = bench.open("mix", "statistics", {"list": ["Aten.", "Functional."]})
    debugger.start(model)
    observed = train(model)
    debugger.stop()
    assert all(torch.equal(one, other) for one, other in zip(bare, observed, strict=True))


def test_operators_stand_inside_their_module(bench: Any) -> None:
    model = Mlp()
    debugger = bench.open("mix", "statistics", {"list": ["Aten.addmm", "Aten.mm", "Module."]})
    debugger.start(model)
    model(torch.rand(3, 4, requires_grad=True)).sum().backward()
    debugger.stop()
    parents = bench.read().construct
    assert parents["Aten.addmm.0.forward"] == "Module.fc1.Linear.forward.0"
    assert parents["Aten.addmm.1.forward"] == "Module.fc2.Linear.forward.0"
    assert parents["Aten.mm.0.forward"] == "Module.fc2.Linear.backward.0"


@pytest.mark.parametrize("reentrant", [False, True])
def test_operators_of_a_recomputation_are_marked(bench: Any, reentrant: bool) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.exp."]})
    debugger.start()
    x = torch.ones(2, requires_grad=True)
    checkpoint(lambda x: x.exp().sin(), x, use_reentrant=reentrant).sum().backward()
    debugger.stop()
    data = bench.read().data
    assert [entry.get("is_recompute") for entry in data.values()] == [None, True]


def test_a_backward_pass_that_is_differentiable_itself_recomputes_nothing(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.mul"]})
    debugger.start()
    x = torch.ones(2, requires_grad=True)
    (gradient,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
    gradient.sum().backward()
    debugger.stop()
    data = bench.read().data
    assert len(data) >= 2
    assert not any("is_recompute" in entry for entry in data.values())


def test_values_and_numbers(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.add"]})
    debugger.start()
    for _ in range(2):
        torch.ones(2) + 1
    debugger.step()
    torch.ones(2).add_(2)
    debugger.stop()
    assert bench.read(0).names() == ["Aten.add.0.forward", "Aten.add.1.forward"]
    entry = bench.read(1).data["Aten.add_.0.forward"]
    assert entry["input_args"][0]["Max"] == 1.0
    assert entry["output"][0]["Max"] == 3.0


def test_scope_asks_too(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"scope": ["Aten.exp.0.forward", "Aten.log.0.forward"]})
    debugger.start()
    F.relu(torch.ones(2)).exp().sin().log().cos()
    debugger.stop()
    assert operators(bench.read().names()) == ["exp", "sin", "log"]
    assert "Tensor.sin.0.forward" in bench.read().names()


def test_an_operator_that_raises_leaves_its_inputs(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.mm"]})
    debugger.start()
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    torch.mm(torch.ones(2, 3), torch.ones(3, 2))
    debugger.stop()
    data = bench.read().data
    assert "cannot be multiplied" in data["Aten.mm.0.forward"]["error"]
    assert data["Aten.mm.1.forward"]["output"][0]["Max"] == 3.0


@pytest.mark.parametrize("names", [[], ["Functional."], ["aten"]], ids=["all", "functions", "fragment"])
def test_no_mode_is_entered_unless_asked(bench: Any, names: list[str]) -> None:
    debugger = bench.open("L1", "statistics", {"list": names})
    debugger.start()
    assert _get_current_dispatch_mode_stack() == []
    debugger.stop()


def test_the_mode_is_gone_after_stop(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten."]})
    debugger.start()
    assert len(_get_current_dispatch_mode_stack()) == 1
    debugger.stop()
    assert _get_current_dispatch_mode_stack() == []


def test_a_mode_of_the_user_entered_since_stays(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.exp"]})
    debugger.start()
    with Log() as log:
        torch.ones(2).exp()
        debugger.stop()
        assert _get_current_dispatch_mode_stack() == [log]
        torch.ones(2).exp()
    assert _get_current_dispatch_mode_stack() == []
    assert log.names == ["ones", "exp", "ones", "exp"]
    assert bench.read().names() == ["Aten.exp.0.forward"]


def test_a_stop_in_another_thread_switches_it_off(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.exp"]})
    debugger.start()
    other = threading.Thread(target=debugger.stop)
    other.start()
    other.join()
    assert len(_get_current_dispatch_mode_stack()) == 1
    assert torch.ones(2).exp().shape == (2,)
    assert bench.read().names() == []
    with outside_modes():
        pass
    assert _get_current_dispatch_mode_stack() == []


def test_a_mode_of_the_program_may_end_before_stop(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Aten.exp"]})
    with Log() as log:
        debugger.start()
        torch.ones(2).exp()
    assert log.names == ["ones", "exp"]
    assert log not in _get_current_dispatch_mode_stack()
    assert not is_in_torch_dispatch_mode()
    debugger.stop()
    assert _get_current_dispatch_mode_stack() == []
    assert bench.read().names() == ["Aten.exp.0.forward"]


def test_compiled_functions_stay_compiled(bench: Any) -> None:
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    function = torch.compile(lambda x: x.sin().cos(), backend=backend)
    debugger = bench.open("L1", "statistics", {"list": ["Aten."]})
    debugger.start()
    result = function(torch.ones(2))
    debugger.stop()
    assert torch.equal(result, torch.ones(2).sin().cos())
    assert compiled


@pytest.mark.filterwarnings("ignore")  # nested tensors are a prototype
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_operators_on_nested_tensors(bench: Any, layout: torch.layout) -> None:
    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.full((3, 4), -2.0)], layout=layout)
    debugger = bench.open("L1", statistics={"list": ["Aten."]})
    debugger.start()
    torch.neg(rows)
    debugger.stop()
    debugger.step()
    entry = bench.read().data["Aten.neg.0.forward"]
    assert (entry["input_args"][0]["Min"], entry["output"][0]["Max"]) == (-2.0, 2.0)
