"""overflow_check and nan_check: the calls that turn finite values into others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from msprobe.analyze.overflow import check_overflow
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

NAN = float("nan")
BIG = torch.full((2,), 3e38)


def test_only_guilty_calls_are_kept_with_their_tensors(bench: Any) -> None:
    debugger = bench.open("L1", "overflow_check", {"overflow_nums": -1})
    debugger.start()
    F.relu(torch.ones(2))
    made = torch.mul(BIG, BIG)
    F.relu(made)  # hands the infinity on
    torch.log(torch.tensor([-1.0]))
    torch.ones(3).masked_fill_(torch.tensor([True, False, True]), float("-inf"))  # was told to
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    assert recorded.names() == ["Torch.mul.0.forward", "Torch.log.0.forward"]
    assert recorded.dump["task"] == "overflow_check"
    assert recorded.files() == [
        "Torch.log.0.forward.input.0.pt",
        "Torch.log.0.forward.output.0.pt",
        "Torch.mul.0.forward.input.0.pt",
        "Torch.mul.0.forward.input.1.pt",
        "Torch.mul.0.forward.output.0.pt",
    ]
    assert recorded.data["Torch.log.0.forward"]["output"][0]["data_name"] == "Torch.log.0.forward.output.0.pt"
    assert torch.isnan(recorded.tensor("Torch.log.0.forward.output.0.pt")).all()
    assert set(recorded.stack["0"][0]) | set(recorded.stack["1"][0]) == set(recorded.names())


def test_an_innocent_call_that_takes_long_leaves_nothing_and_a_guilty_backward_has_a_stack(bench: Any) -> None:
    class Slow:
        @staticmethod
        def relu(value: Any) -> Any:
            time.sleep(0.3)  # long enough for inputs of running calls to be written early
            return torch.relu(value)

    debugger = bench.open("L1", "overflow_check")
    debugger.register_custom_api(Slow, "relu", "Slow")
    debugger.start()
    x = torch.zeros(2, requires_grad=True)
    torch.sqrt(Slow.relu(x)).sum().backward()  # the derivative of sqrt at 0
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    assert recorded.names() == ["Torch.sqrt.0.backward"]
    assert Path(__file__).name in "".join(recorded.frames("Torch.sqrt.0.backward"))


def test_inputs_of_an_in_place_call_are_those_before_it(bench: Any) -> None:
    debugger = bench.open("L1", "overflow_check")
    debugger.start()
    value = BIG.clone()
    value.mul_(10)
    debugger.stop()
    assert bench.read().tensor("Tensor.mul_.0.forward.input.0.pt").tolist() == BIG.tolist()


@pytest.mark.parametrize(("limit", "found"), [(1, 1), (2, 2), (-1, 3)])
def test_it_ends_after_the_number_asked_for(bench: Any, limit: int, found: int) -> None:
    debugger = bench.open("L1", "overflow_check", {"overflow_nums": limit})
    for _ in range(3):
        debugger.start()
        torch.mul(BIG, BIG)
        torch.add(torch.ones(1), 1)
        debugger.stop()
        debugger.step()
    kept = [name for step in bench.steps() for name in bench.read(int(step[4:])).names()]
    assert len(kept) == found
    assert len(bench.steps()) == found  # what comes after the end is not even opened


def test_the_backward_pass_is_looked_at_too(bench: Any) -> None:
    debugger = bench.open("L1", "overflow_check")
    debugger.start()
    x = torch.zeros(2, requires_grad=True)
    torch.sqrt(x).sum().backward()
    debugger.stop()
    debugger.step()
    assert bench.read().names() == ["Torch.sqrt.0.backward"]


def softmaxed(values: torch.Tensor, factors: torch.Tensor) -> None:
    torch.softmax(torch.mul(values, factors), 0).sum().backward()


def hidden(values: torch.Tensor, mask: torch.Tensor) -> None:
    torch.softmax(torch.masked_fill(values, mask, float("-inf")), 0).sum().backward()


@pytest.mark.parametrize(
    ("program", "given", "task", "command"),
    [
        (softmaxed, torch.tensor([1.0, float("inf"), 2.0]), [], "Torch.mul.0.forward"),
        (softmaxed, torch.tensor([1.0, 3e38, 2.0]), ["Torch.mul.0.forward"], "Torch.mul.0.forward"),
        (hidden, torch.tensor([True, True, True]), ["Torch.softmax.0.forward"], "Torch.softmax.0.forward"),
        (hidden, torch.tensor([True, False, True]), [], None),
    ],
    ids=["infinity in the data", "too large", "mask that hides everything", "mask"],
)
def test_the_task_and_the_command_name_the_same_call(
    bench: Any, capsys: pytest.CaptureFixture[str], program: Any, given: Any, task: list[str], command: str | None
) -> None:
    names = []
    for kind in ("overflow_check", "statistics"):
        debugger = bench.open("L1", kind, {"overflow_nums": -1} if kind == "overflow_check" else {})
        with debugger.collect():
            program(torch.full((3,), 10.0, requires_grad=True), given)
        names.append(bench.read().names())
        if kind == "overflow_check":
            bench.close()
    assert names[0] == task
    found = check_overflow(bench.root)
    assert (found.sources[0].name if found.found else None) == command
    if command is not None and not task:
        assert f"{command}: {found.sources[0].reason}" in capsys.readouterr().out


def test_memory_that_nobody_has_written_is_no_finding(bench: Any) -> None:
    with bench.open("L1", "overflow_check", {"overflow_nums": -1}).collect():
        odd = torch.empty(4)
        torch.Tensor.fill_(odd, 1.0)
        torch.add(odd, 1.0)
    assert bench.read().names() == []


class Rooted(nn.Module):
    """The derivative of a square root at 0 lies between its two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.sqrt(self.first(x) * 0))


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_gradients_of_parameters_that_were_handed_a_nan_are_no_findings(bench: Any, level: str) -> None:
    debugger, model = bench.open(level, "overflow_check", {"overflow_nums": 2}), Rooted()
    debugger.start(model)
    model(torch.ones(1, 4)).sum().backward()
    torch.log(torch.zeros(1))
    debugger.stop()
    debugger.step()
    assert bench.read().names() == ["Torch.sqrt.0.backward", "Torch.log.0.forward"]


def test_a_nan_that_no_recorded_call_made_is_told(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger, model = bench.open("L0", "overflow_check"), Rooted()
    debugger.start(model)
    model(torch.ones(1, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    assert bench.read().names() == []
    said = capsys.readouterr().out
    assert (
        "Module.first.Linear.backward.0: NaN is in its input input.0 already; no earlier call of the step made it"
        in said
    )
    (line,) = check_overflow(bench.root).lines
    assert line.startswith("No call made NaN or infinity. Task overflow_check records those calls alone")


class Scaled(nn.Module):
    """The gradient of its weight is complete before that of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * 1e-3)


@pytest.mark.parametrize(
    ("factor", "found"),
    [
        (float("inf"), []),
        (3e38, ["Module.1.Scaled.parameters_grad.0"]),  # a sum over the rows that is too large
    ],
    ids=["handed on", "made here"],
)
def test_gradients_of_parameters_wait_for_what_their_module_was_given(
    bench: Any, factor: float, found: list[str]
) -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), Scaled())
    nn.init.constant_(model[0].weight, 1000.0)
    debugger = bench.open("L0", "overflow_check", {"overflow_nums": -1})
    debugger.start(model)
    model(torch.ones(50, 4)).backward(torch.full((50, 4), factor))
    debugger.stop()
    debugger.step()
    assert bench.read().names() == found


def test_a_gradient_whose_wait_is_in_vain_is_judged_at_the_end_of_the_step(bench: Any) -> None:
    model = Scaled()
    debugger = bench.open("L0", "overflow_check")
    debugger.start(nn.Sequential(model))
    with torch.no_grad():
        model(torch.ones(50, 4))  # its backward never comes
    model(torch.full((50, 4), 1000.0, requires_grad=True)).backward(torch.full((50, 4), 3e38))
    debugger.stop()
    assert bench.read().names() == []
    debugger.step()
    recorded = bench.read()
    assert recorded.names() == ["Module.0.Scaled.parameters_grad.0"]
    assert recorded.files() == ["Module.0.Scaled.parameters_grad.0.weight.pt"]


def test_the_backward_of_a_guilty_call_is_not_found_again(bench: Any) -> None:
    debugger = bench.open("L1", "overflow_check", {"overflow_nums": -1})
    debugger.start()
    x = torch.zeros(2, requires_grad=True)
    (torch.log(x) * 0.0).sum().backward()
    debugger.stop()
    debugger.step()
    assert bench.read().names() == ["Torch.log.0.forward"]


def test_a_mask_of_infinities_does_not_hide_a_wrong_backward(bench: Any) -> None:
    class Strange(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x + mask, 0)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
            return grad / 0.0, None

    debugger = bench.open("L1", "overflow_check", {"overflow_nums": -1})
    debugger.register_custom_api(Strange, "apply", "Strange")
    debugger.start()
    Strange.apply(torch.ones(2, requires_grad=True), torch.tensor([0.0, float("-inf")])).sum().backward()
    debugger.stop()
    debugger.step()
    assert bench.read().names()[-1] == "Strange.apply.0.backward"


def test_modules_and_their_parameters_are_inputs(bench: Any) -> None:
    debugger, model = bench.open("L0", "overflow_check", {"overflow_nums": -1}), Mlp()
    with torch.no_grad():
        model.fc1.weight[0, 0] = NAN
        model.fc2.weight.fill_(3e38)
    debugger.start(model)
    with torch.no_grad():
        model.fc1(torch.ones(1, 4))  # its weight is to blame
        model.fc2(torch.full((1, 8), 100.0))
    debugger.stop()
    assert bench.read().names() == ["Module.fc2.Linear.forward.0"]


def test_an_innocent_step_says_so(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open("L1", "overflow_check")
    debugger.start()
    F.relu(torch.ones(2))
    debugger.stop()
    debugger.step()
    assert bench.read().names() == []
    assert "0 calls made infinities" in capsys.readouterr().out


def test_nan_check_keeps_the_statistics_of_the_way_there(bench: Any) -> None:
    debugger = bench.open("L1", "nan_check")
    debugger.start()
    value = F.relu(torch.ones(2))
    value = torch.log(value - 2)
    F.gelu(value)
    debugger.stop()
    debugger.step()
    recorded = bench.read()
    assert recorded.names() == ["Functional.relu.0.forward", "Tensor.__sub__.0.forward", "Torch.log.0.forward"]
    assert {name.rsplit(".forward")[0] for name in recorded.files()} == {"Torch.log.0"}
    debugger.start()
    torch.log(value)
    debugger.stop()
    assert bench.steps() == ["step0"]


def test_training_is_not_disturbed(bench: Any) -> None:
    def train() -> list[torch.Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    expected = train()
    debugger = bench.open("L1", "overflow_check")
    debugger.start()
    found = train()
    debugger.stop()
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
