"""Task online_check: operators of a running program, sampled, judged at once."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.adapters.pytorch.replay.live_functions import prepared_call
from msprobe.adapters.pytorch.replay.runner import make_replayer, results_of
from msprobe.core.backend.replaying import Execution
from msprobe.replay.judged_call import explain, judge_call
from tests.adapters.pytorch.test_checked_trainings import same, train
from tests.precheck.planted_kernels import PlantedKernel

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "online_check_rank0" / "summary.json").read_text(encoding="utf-8"))
    return content


@pytest.mark.slow
def test_a_training_is_bit_identical_and_right(bench: Any) -> None:
    plain = train(torch.float32, 3)
    watched = train(torch.float32, 3, bench.open("L1", "online_check", {"every": 1, "share": 1.0}))
    assert same(plain, watched)
    bench.close()
    found = summary(bench.root)
    assert len(found) > 30
    assert {"gelu.default", "gelu_backward.default", "addmm.default"} <= set(found)
    assert [name for name, each in found.items() if each["wrong"]] == []


def test_a_wrong_operator_of_the_backward_pass_is_recorded_with_its_inputs(bench: Any) -> None:
    x = torch.randn(8, 8, requires_grad=True)
    with PlantedKernel("gelu_backward", "one element").planted(), bench.open("L1", "online_check", {}).collect():
        F.gelu(x).square().sum().backward()
    recorded = bench.read()
    bench.close()
    assert recorded.names() == ["Aten.gelu_backward.0.forward"]
    assert [name for name, each in summary(bench.root).items() if each["wrong"]] == ["gelu_backward.default"]
    files = {"Aten.gelu_backward.0.forward.input.0.pt", "Aten.gelu_backward.0.forward.input.1.pt"}
    assert files <= set(recorded.files())
    (table,) = (bench.root / "online_check_rank0").glob("compare_result_rank0_*.csv")
    with table.open(encoding="utf-8-sig", newline="") as file:
        wrong = [line for line in csv.DictReader(file) if line["Status"] == "error"]
    assert [line["Npu Name"] for line in wrong] == ["gelu_backward.default.output.0"]


def test_every_so_manieth_step_and_the_first_calls_of_a_kind(bench: Any) -> None:
    debugger = bench.open("L1", "online_check", {"every": 2, "first": 1, "share": 1.0})
    for step in range(5):
        with debugger.collect():
            torch.sin(torch.ones(4 + step))
            torch.cos(torch.ones(4))
    bench.close()
    found = summary(bench.root)
    assert found["sin.default"]["checked"] == 3
    assert found["cos.default"]["checked"] == 1
    assert [name for name in bench.steps() if name.startswith("step")] == ["step0", "step2", "step4"]


def test_chosen_operators_and_their_tensors(bench: Any) -> None:
    with bench.open("L1", "online_check", {"list": ["sin"], "dump_mode": "list"}).collect():
        torch.sin(torch.cos(torch.ones(4)))
    bench.close()
    assert list(summary(bench.root)) == ["sin.default"]
    kept = {path.name for path in (bench.root / "online_check_rank0" / "cpu").iterdir()}
    assert kept == {"sin.default_0_output.0.npy"}


def test_what_the_program_raises_reaches_it_and_modes_are_left(bench: Any) -> None:
    debugger = bench.open("L1", "online_check", {})
    with pytest.raises(RuntimeError, match="mat1 and mat2"), debugger.collect():
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    assert torch._C._len_torch_dispatch_stack() == 0
    bench.close()


class Layers(torch.nn.Module):
    """Layers whose backward pass does not ask for all of its results: a first one, frozen weights, frozen norms."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.back = torch.nn.Conv2d(1, 2, 3), torch.nn.ConvTranspose2d(2, 2, 3)
        self.norm, self.group = torch.nn.BatchNorm2d(2), torch.nn.GroupNorm(1, 2)
        self.layer, self.out = torch.nn.LayerNorm(6), torch.nn.Linear(6, 2)
        for frozen in (self.back.weight, self.norm.weight, self.group.bias, self.layer.weight):
            frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.out(self.layer(self.group(self.norm(self.back(self.first(x))))))
        return hidden


def test_results_that_a_call_does_not_ask_for_are_not_compared(bench: Any) -> None:
    model = Layers()
    with bench.open("L1", "online_check", {"first": 100, "share": 1.0}).collect():
        model(torch.randn(2, 1, 6, 6)).square().sum().backward()
    bench.close()
    found = summary(bench.root)
    backward = {"convolution", "native_batch_norm", "native_group_norm", "native_layer_norm"}
    assert {f"{name}_backward.default" for name in backward} <= set(found)
    assert found["convolution_backward.default"]["checked"] == 2
    assert {name: each["first_wrong"] for name, each in found.items() if each["wrong"]} == {}


def test_a_result_that_is_missing_is_wrong() -> None:
    x, gradient = torch.randn(2, 1, 6, 6), torch.randn(2, 2, 4, 4)
    mask = [False, True, False]
    args = (gradient, x, torch.randn(2, 1, 3, 3), [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask)
    call = prepared_call("Aten", "convolution_backward.default", args, {})
    (value,) = judge_call(call, make_replayer(), "cpu", Execution(results_of((x, None, x), mask))).forward
    assert explain(value) == "nothing on the device, a tensor of shape [2, 1, 3, 3] in the golden call"
