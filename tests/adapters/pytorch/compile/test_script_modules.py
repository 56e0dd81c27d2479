"""TorchScript modules: what enters and leaves them is recorded, one line tells of the rest, no program fails."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from tests.adapters.pytorch.networks import Mlp, Nested  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch.jit is deprecated


def dumped(bench: Any, model: Any, section: Any = None) -> Any:
    bench.root = bench.root.parent / f"dump{len(list(bench.root.parent.iterdir()))}"
    debugger = bench.open("mix", section=section)
    debugger.start(model=model)
    model(torch.ones(3, 4)).sum().backward()
    debugger.stop()
    return bench.read().data


def script(model: Any) -> Any:
    return torch.jit.script(model)


def trace(model: Any) -> Any:
    return torch.jit.trace(model, torch.ones(3, 4))


@pytest.mark.parametrize("make", [script, trace])
def test_what_enters_and_leaves_is_that_of_the_model(bench: Any, make: Any) -> None:
    torch.manual_seed(0)
    eager = Nested(Mlp())
    expected = dumped(bench, eager)
    model = copy.deepcopy(eager)
    model.zero_grad()
    model.inner = make(model.inner)
    found = dumped(bench, model)
    assert {name for name in expected if name.startswith("Module.inner.Mlp.")} <= set(found)
    for name in ("Module.inner.Mlp.forward.0", "Module.inner.fc1.Linear.parameters_grad.0"):
        assert found[name] == expected[name]
    assert "Module.inner.fc1.Linear.forward.0" not in found


def test_one_line_names_the_module_and_what_to_do(bench: Any, capfd: Any) -> None:
    model = Nested(Mlp())
    model.inner = script(model.inner)
    debugger = bench.open("L0")
    for _ in range(2):
        debugger.start(model=model)
        model(torch.ones(3, 4))
        debugger.stop()
        debugger.step()
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "TorchScript" in line]
    assert len(lines) == 1
    assert "Module.inner.Mlp" in lines[0]
    assert "torch.export" in lines[0]


@pytest.mark.parametrize("make", [script, trace])
def test_a_whole_model_has_its_operators(bench: Any, make: Any) -> None:
    found = dumped(bench, make(Mlp()), {"list": ["Aten.", "Module."]})
    assert "Aten.addmm.1.forward" in found
    assert "Module.fc1.Linear.parameters_grad.0" in found
