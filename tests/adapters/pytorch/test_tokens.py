"""Starts that collect less: token ranges, requests, slices; and steps that are forgotten again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from msprobe.core.errors import MsprobeException
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


class Decoder(nn.Module):
    """One call is one token."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x)


def generate(model: nn.Module, tokens: int) -> None:
    x = torch.ones(2)
    for _ in range(tokens):
        torch.exp(x)
        x = model(x)
        torch.tanh(x)


@pytest.mark.parametrize(("first", "last", "relus", "exps"), [(0, 0, 1, 1), (1, 2, 2, 2), (2, 9, 2, 1), (7, 9, 0, 0)])
def test_what_lies_between_two_calls_belongs_to_the_token_before(
    bench: Any, first: int, last: int, relus: int, exps: int
) -> None:
    debugger, model = bench.open("L1", risk_level="ALL"), Decoder()
    debugger.start(model, token_range=[first, last])
    generate(model, 4)
    debugger.stop()
    recorded = bench.read()
    assert len(recorded.names("relu")) == len(recorded.names("tanh")) == relus
    assert len(recorded.names("exp")) == exps  # exp runs before its token: the first of all belongs to none


def test_tokens_are_counted_from_each_start(bench: Any) -> None:
    debugger, model = bench.open(), Decoder()
    for _ in range(2):
        debugger.start(model, token_range=(1, 1))
        generate(model, 3)
        debugger.stop()
    assert bench.read().names("relu") == ["Functional.relu.0.forward", "Functional.relu.1.forward"]


def test_modules_are_collected_in_the_range_and_the_model_is_left_alone(bench: Any) -> None:
    debugger, model = bench.open("mix"), Mlp()
    debugger.start([model], token_range=[1, 1])
    for _ in range(3):
        model(torch.ones(1, 4))
    assert not model._forward_pre_hooks
    debugger.stop()
    assert bench.read().names("fc1") == ["Module.0.fc1.Linear.forward.0"]


@pytest.mark.parametrize("wrong", ["1", 5, [1], [1, 2, 3], [0, 1.5], [True, 2], [2, 1], [-1, 1]])
def test_a_wrong_range_is_named(bench: Any, wrong: Any) -> None:
    debugger = bench.open()
    with pytest.raises(MsprobeException, match="token_range") as error:
        debugger.start(Decoder(), token_range=wrong)
    assert error.value.code == 0


@pytest.mark.parametrize("model", [None, "model", []])
def test_a_range_needs_a_model(bench: Any, model: Any) -> None:
    with pytest.raises(MsprobeException, match="model"):
        bench.open().start(model, token_range=[0, 1])


def test_a_request_is_cut_out_of_the_batch(bench: Any) -> None:
    debugger = bench.open("L1", "tensor", {"request_id": "b"})
    debugger.start(scheduled_tokens={"a": 2, "b": 3, "c": 1})
    F.relu(torch.arange(12.0).reshape(6, 2))
    F.gelu(torch.ones(5, 2))
    debugger.stop()
    recorded = bench.read()
    assert recorded.tensor("Functional.relu.0.forward.input.0.pt").tolist() == [[4.0, 5.0], [6.0, 7.0], [8.0, 9.0]]
    assert recorded.data["Functional.relu.0.forward"]["output"][0]["shape"] == [3, 2]
    assert recorded.data["Functional.gelu.0.forward"]["output"][0]["shape"] == [5, 2]


@pytest.mark.parametrize("tokens", [None, {}, {"a": 4}])
def test_a_step_without_the_request_is_not_collected(
    bench: Any, tokens: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    debugger = bench.open("L1", section={"request_id": "b"})
    debugger.start(scheduled_tokens=tokens)
    F.relu(torch.ones(4))
    debugger.stop()
    debugger.step()
    assert not bench.root.exists()
    assert "request b" in capsys.readouterr().out


def test_scheduled_tokens_mean_nothing_without_a_request(bench: Any) -> None:
    debugger = bench.open()
    debugger.start(scheduled_tokens={"a": 3})
    F.relu(torch.ones(4))
    debugger.stop()
    assert bench.read().data["Functional.relu.0.forward"]["output"][0]["shape"] == [4]


@pytest.mark.parametrize("wrong", [3, ["a"], {"a": "b"}, {"a": -1}, {1: 1}, {"a": True}])
def test_wrong_scheduled_tokens_are_named(bench: Any, wrong: Any) -> None:
    with pytest.raises(MsprobeException, match="scheduled_tokens"):
        bench.open().start(scheduled_tokens=wrong)


def test_slices_cut_before_statistics_and_checksums(bench: Any) -> None:
    section = {"slice": [{"dim": 0, "begin": 1, "end": 2}, {"dim": 1, "size": 3, "end": 1}], "summary_mode": "md5"}
    debugger = bench.open("L1", "statistics", section)
    debugger.start()
    F.relu(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True))
    with torch.no_grad():
        F.relu(torch.tensor([[4.0]]))
    F.relu(torch.tensor([[9.0], [4.0]]))
    debugger.stop()
    nodes = [entry["output"][0] for name, entry in bench.read().data.items()]
    assert [node["shape"] for node in nodes] == [[1, 1], [0, 1], [1, 1]]
    assert nodes[0]["Max"] == nodes[0]["Min"] == 4.0
    assert nodes[0]["requires_grad"] is True
    assert nodes[0]["md5"] == nodes[2]["md5"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_discarded_step_leaves_nothing(bench: Any, asynchronous: bool) -> None:
    debugger = bench.open("L1", "tensor", async_dump=asynchronous)
    for keep in (True, False, True):
        debugger.start()
        F.relu(torch.ones(2))
        debugger.stop()
        debugger.step(dump=keep)
    assert bench.steps() == ["step0", "step2"]


def test_a_discarded_step_that_still_runs_goes_on_with_the_next(bench: Any) -> None:
    debugger = bench.open()
    debugger.start()
    F.relu(torch.ones(2))
    debugger.step(dump=False)
    F.gelu(torch.ones(2))
    debugger.stop()
    assert bench.steps() == ["step1"]
    assert bench.read(1).names() == ["Functional.gelu.0.forward"]


def test_unknown_arguments_of_start_are_told_and_ignored(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open()
    debugger.start(with_whistles_and_bells=True)
    F.relu(torch.ones(2))
    debugger.stop()
    assert "with_whistles_and_bells" in capsys.readouterr().out
    assert bench.read().names("relu")


def test_a_block_is_a_step_even_when_it_raises(bench: Any) -> None:
    debugger, model = bench.open("mix"), Mlp()
    with debugger.collect(model):
        model(torch.ones(1, 4))
    with pytest.raises(ZeroDivisionError), debugger.collect(model):
        F.relu(torch.ones(1))
        raise ZeroDivisionError
    F.relu(torch.ones(1))
    assert bench.read(0).names("fc1")
    assert bench.read(1).names() == ["Functional.relu.0.forward"]


def test_models_in_turn_with_the_same_names_number_on(bench: Any) -> None:
    debugger, actor, critic = bench.open("L0"), Mlp(), Mlp()
    for _ in range(2):
        for model in (actor, critic):
            debugger.start(model)
            model(torch.ones(1, 4)).sum().backward()
            debugger.stop()
        debugger.step()
    for step in (0, 1):
        recorded = bench.read(step)
        assert recorded.names("fc1.Linear.forward") == [f"Module.fc1.Linear.forward.{n}" for n in (0, 1)]
        assert recorded.names("fc1.Linear.backward") == [f"Module.fc1.Linear.backward.{n}" for n in (0, 1)]
        gradients = recorded.names("fc1.Linear.parameters_grad")
        assert gradients == [f"Module.fc1.Linear.parameters_grad.{n}" for n in (0, 1)]
        assert set(recorded.data["Module.fc1.Linear.parameters_grad.1"]) == {"weight", "bias"}


def test_the_header_tells_the_tokens_of_each_request(bench: Any) -> None:
    """Steps that are not collected count, too."""
    debugger = bench.open("L1", step=[1, 2, 3])
    for scheduled in ({"a": 3, "b": 2}, {"b": 1, "a": 1}, None, {"a": 1}):
        debugger.start(scheduled_tokens=scheduled, computed_tokens={"b": 7})
        F.relu(torch.ones(2))
        debugger.stop()
        debugger.step()
    headers = [bench.read(step).dump.get("scheduled_tokens") for step in (1, 2, 3)]
    first = [{"id": "b", "tokens": 1, "position": 7}, {"id": "a", "tokens": 1, "position": 3}]
    assert headers == [{"requests": first}, None, {"requests": [{"id": "a", "tokens": 1, "position": 4}]}]


def test_a_cut_dump_says_so_and_several_batches_say_nothing(bench: Any) -> None:
    debugger = bench.open("L1", section={"request_id": "b"})
    for step in ([{"a": 1, "b": 2}], [{"b": 2}, {"b": 3}]):
        for scheduled in step:
            debugger.start(scheduled_tokens=scheduled)
            F.relu(torch.ones(3))
            debugger.stop()
        debugger.step()
    assert bench.read(0).dump["scheduled_tokens"]["only"] == "b"
    assert bench.read(1).dump["scheduled_tokens"] == {"requests": []}
