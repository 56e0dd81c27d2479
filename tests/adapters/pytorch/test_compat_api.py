"""module_dump: one module as a black box between the calls around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

PHASES = ("forward", "backward", "parameters_grad")


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


@pytest.mark.parametrize("word", ["dump_name", "module_name"])
def test_both_names_of_the_name(bench: Any, word: str) -> None:
    model = Mlp()
    debugger = bench.open("L1")
    debugger.start()
    module_dump(model, **{word: "Mine"})
    model(torch.ones(2, 4))
    module_dump_end()
    debugger.stop()
    debugger.step()
    assert bench.read().names("forward") == ["Module.Mine.Mlp.forward.0"]


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


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_asked_before_start_it_holds_over_steps_until_it_ends(bench: Any, level: str) -> None:
    model, debugger = Mlp(), bench.open(level)
    module_dump(model, "MyNet")
    for step in range(4):
        if step == 2:
            module_dump_end()
        debugger.start(model)
        F.relu(model(torch.ones(2, 4))).sum().backward()
        debugger.stop()
        debugger.step()
    alone = ["Module.MyNet.Mlp.forward.0"]
    assert [bench.read(step).names("forward") for step in (0, 1)] == [alone, alone]
    after = bench.read(2).names("forward")
    assert after == bench.read(3).names("forward")
    assert not any("MyNet" in name for name in after)
    assert ("Functional.relu.0.forward" in after) == (level != "L0")
    assert ("Module.fc1.Linear.forward.0" in after) == (level != "L1")


def test_it_holds_over_a_stop_and_a_start(bench: Any) -> None:
    model, debugger = Mlp(), bench.open("L1")
    debugger.start()
    module_dump(model, "MyNet")
    for _ in range(2):
        model(torch.ones(2, 4))
        debugger.stop()
        debugger.start()
    debugger.stop()
    assert bench.read().names("forward") == ["Module.MyNet.Mlp.forward.0", "Module.MyNet.Mlp.forward.1"]


def test_a_loop_that_is_never_stopped(bench: Any) -> None:
    model, debugger = Mlp(), bench.open("L1")
    debugger.start()
    module_dump(model.fc1, "first")
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
        debugger.step()
    expected = [
        "Module.first.Linear.forward.0",
        "Module.first.Linear.backward.0",
        "Module.first.Linear.parameters_grad.0",
    ]
    assert [sorted(bench.read(step).names()) for step in (0, 1)] == [sorted(expected)] * 2


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_two_modules_in_turn_are_both_recorded(bench: Any, level: str) -> None:
    model, debugger = Mlp(), bench.open(level)
    debugger.start(model)
    module_dump(model.fc1, "first")
    module_dump(model.fc2, "second")
    model(torch.ones(2, 4)).sum().backward()
    module_dump_end()
    debugger.stop()
    debugger.step()
    expected = [f"Module.{stem}.Linear.{phase}.0" for stem in ("first", "second") for phase in PHASES]
    assert sorted(bench.read().names()) == sorted(expected)


def test_a_changed_configuration_keeps_it(bench: Any, tmp_path: Path) -> None:
    bench.close()
    path, model = tmp_path / "config.json", Mlp()
    content = {"task": "statistics", "level": "L1", "dump_path": str(bench.root), "dump_enable": True}
    path.write_text(json.dumps(content))
    debugger = PrecisionDebugger(str(path))
    module_dump(model, "MyNet")
    path.write_text(json.dumps({**content, "level": "mix"}))
    assert debugger._maybe_reload_config(force=True)
    debugger.start(model)
    model(torch.ones(2, 4))
    debugger.stop()
    assert bench.read().names() == ["Module.MyNet.Mlp.forward.0"]


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
