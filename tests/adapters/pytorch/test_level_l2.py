"""Level L2 without an NPU: the chosen call and the operators inside it, and a header that says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.errors import ConfigError
from msprobe.pytorch import PrecisionDebugger
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

LINEAR = "Functional.linear.1.forward"


def collect(bench: Any, target: str, body: Any, **fields: Any) -> Any:
    debugger = bench.open("L2", "tensor", {"list": [target]}, **fields)
    debugger.start()
    body()
    debugger.stop()
    debugger.step()
    return bench.read()


def train(model: Any) -> list[torch.Tensor]:
    model(torch.ones(3, 4)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def test_the_chosen_call_and_the_operators_inside_it(bench: Any) -> None:
    recorded = collect(bench, LINEAR, lambda: train(Mlp()))
    assert recorded.names() == ["Aten.t.1.forward", "Aten.addmm.1.forward", LINEAR]
    assert torch.equal(recorded.tensor("Aten.addmm.1.forward.output.0.pt"), recorded.tensor(f"{LINEAR}.output.0.pt"))


def test_the_header_says_where_the_kernels_come_from(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = collect(bench, LINEAR, lambda: train(Mlp()))
    assert (recorded.dump["level"], recorded.dump["kernel_source"]) == ("L2", "cpu-fallback")


def test_other_levels_say_nothing_of_kernels(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start()
    F.relu(torch.ones(2))
    debugger.stop()
    assert "kernel_source" not in bench.read().dump


def test_the_backward_of_a_call(bench: Any) -> None:
    recorded = collect(bench, "Functional.linear.1.backward", lambda: train(Mlp()))
    assert recorded.names("Functional") == ["Functional.linear.1.backward"]
    computed = [name for name in recorded.names("Aten") if ".mm." in name or ".sum." in name]
    assert {name.split(".")[1] for name in computed} == {"mm", "sum"}
    assert "Aten.gelu_backward" not in "".join(recorded.names())


def test_the_backward_of_a_call_of_one_node(bench: Any) -> None:
    def body() -> None:
        x = torch.ones(2, requires_grad=True)
        torch.tanh(torch.exp(x)).sum().backward()

    recorded = collect(bench, "Torch.exp.0.backward", body)
    kinds = [name.rsplit(".", 2)[0] for name in recorded.names()]
    assert kinds == ["Aten.detach", "Aten.mul", "Torch.exp"]  # the saved result is taken out, then multiplied


def test_a_call_that_raises_ends_the_window(bench: Any) -> None:
    def body() -> None:
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        torch.exp(torch.ones(2))

    recorded = collect(bench, "Torch.mm.0.forward", body)
    assert recorded.names() == ["Aten.mm.0.forward", "Torch.mm.0.forward"]
    assert "error" in recorded.data["Torch.mm.0.forward"]


def test_an_operator_can_be_chosen(bench: Any) -> None:
    assert collect(bench, "Aten.addmm.0.forward", lambda: train(Mlp())).names() == ["Aten.addmm.0.forward"]


def test_each_step_has_its_own_call(bench: Any) -> None:
    debugger = bench.open("L2", "tensor", {"list": ["Torch.exp.0.forward"]})
    for _ in range(2):
        debugger.start()
        torch.exp(torch.ones(2))
        torch.exp(torch.ones(2))
        debugger.stop()
        debugger.step()
    for step in (0, 1):
        assert bench.read(step).names() == ["Aten.exp.0.forward", "Torch.exp.0.forward"]


def test_a_call_that_never_comes_is_told(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    collect(bench, "Torch.log.0.forward", lambda: torch.exp(torch.ones(2)))
    assert "Torch.exp.0.forward" in capsys.readouterr().out


def test_gradients_are_bit_identical(bench: Any) -> None:
    torch.manual_seed(0)
    bare = train(Mlp())
    torch.manual_seed(0)
    observed: list[torch.Tensor] = []
    collect(bench, "Functional.linear.1.backward", lambda: observed.extend(train(Mlp())))
    assert all(torch.equal(one, other) for one, other in zip(bare, observed, strict=True))


def test_a_running_collection_can_change_to_it_and_back(bench: Any, tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    common = {"dump_path": str(bench.root), "dump_enable": True, "task": "tensor"}
    chosen = {"level": "L2", "tensor": {"list": ["Torch.exp.0.forward"]}}
    levels = [{"level": "L1", "tensor": {"list": ["exp"]}}, chosen, {"level": "L1", "tensor": {"list": ["exp"]}}]
    path.write_text(json.dumps({**common, **levels[0]}))
    debugger = PrecisionDebugger(str(path))
    for level in levels:
        path.write_text(json.dumps({**common, **level}))
        debugger._maybe_reload_config(force=True)
        debugger.start()
        torch.exp(torch.ones(2))
        debugger.stop()
        debugger.step()
    api, operator = "Torch.exp.0.forward", "Aten.exp.0.forward"
    assert [bench.read(step).names() for step in range(3)] == [[api], [operator, api], [api]]


NAMED = {"list": [LINEAR]}
REFUSED = {
    "task": ({"task": "statistics", "section": NAMED}, 'level L2 on PyTorch needs "tensor"'),
    "list": ({"task": "tensor"}, "exactly one full API name"),
    "several": ({"task": "tensor", "section": {"list": [LINEAR, "Torch.mm.0.forward"]}}, "exactly one full API name"),
    "fragment": ({"task": "tensor", "section": {"list": ["linear"]}}, "such as Functional.linear.0.forward"),
    "scope": ({"task": "tensor", "section": {**NAMED, "scope": [LINEAR, LINEAR]}}, "must be empty at level L2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_level_l2_needs(bench: Any, case: str) -> None:
    asked, said = REFUSED[case]
    with pytest.raises(ConfigError, match=said):
        bench.open("L2", **asked)


def test_async_dump_is_told_to_have_no_effect_once(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        recorded = collect(bench, LINEAR, lambda: train(Mlp()), async_dump=True)
    assert recorded.tensor(f"{LINEAR}.output.0.pt").shape == (3, 2)
    assert capsys.readouterr().out.count("async_dump: has no effect on level L2 of one call") == 1
