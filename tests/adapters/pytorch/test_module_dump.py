"""module_dump: one module as a black box between the calls around it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.errors import MsprobeException
from msprobe.pytorch import module_dump, module_dump_end
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


def run(debugger: Any, model: torch.nn.Module) -> None:
    x = torch.ones(2, 4, requires_grad=True)
    h = F.gelu(x)
    module_dump(model, "MyNet")
    h = model(h)
    h = model(h.repeat(1, 2))
    module_dump_end()
    F.softmax(h, dim=1).sum().backward()


def test_only_the_module_is_recorded_inside(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start()
    run(debugger, Mlp())
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    assert recorded.names("forward") == [
        "Functional.gelu.0.forward",
        "Module.MyNet.Mlp.forward.0",
        "Module.MyNet.Mlp.forward.1",
        "Functional.softmax.0.forward",
        "Tensor.sum.0.forward",
    ]
    assert set(recorded.names("MyNet.Mlp.backward")) == {
        "Module.MyNet.Mlp.backward.0",
        "Module.MyNet.Mlp.backward.1",
    }
    assert "Functional.gelu.0.backward" in recorded.data


def test_at_mix_the_hidden_submodules_come_back(bench: Any) -> None:
    model = Mlp()
    debugger = bench.open("mix")
    debugger.start(model=model)
    run(debugger, model)
    model(torch.ones(2, 4))
    debugger.stop()
    debugger.step()
    names = bench.read().names("forward")
    assert names[1:3] == ["Module.MyNet.Mlp.forward.0", "Module.MyNet.Mlp.forward.1"]
    assert "Module.fc1.Linear.forward.0" in names
    assert "Module.fc1.Linear.forward.1" not in names


def test_numbers_begin_again_in_the_next_step(bench: Any) -> None:
    model = Mlp()
    debugger = bench.open("L1")
    for _ in range(2):
        debugger.start()
        run(debugger, model)
        debugger.stop()
        debugger.step()
    assert bench.read(0).names("MyNet.Mlp.forward") == bench.read(1).names("MyNet.Mlp.forward")


def test_end_without_begin_changes_nothing(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start()
    module_dump_end()
    F.relu(torch.ones(2))
    debugger.stop()
    assert bench.read().names() == ["Functional.relu.0.forward"]


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("net", "MyNet", "expected a torch.nn.Module, got str"),
        (torch.nn.ReLU(), 3, "the name is a non-empty str, got 3"),
        (torch.nn.ReLU(), "", "the name is a non-empty str"),
    ],
)
def test_bad_arguments(bench: Any, module: Any, name: Any, said: str) -> None:
    bench.open("L1").start()
    with pytest.raises(MsprobeException, match=said):
        module_dump(module, name)


def test_without_a_debugger(bench: Any) -> None:
    bench.close()
    with pytest.raises(MsprobeException, match="instance is not created") as caught:
        module_dump(torch.nn.ReLU(), "MyNet")
    assert caught.value.code == 3
