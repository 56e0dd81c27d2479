"""Which calls are recorded: data_mode, scope, list, tensor_list, rank, step, risk_level."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


def train(debugger: Any, steps: int = 1, **start: Any) -> None:
    model = Mlp()
    for _ in range(steps):
        debugger.start(model=model, **start)
        model(torch.randn(3, 4, requires_grad=True)).sum().backward()
        debugger.stop()
        debugger.step()


def names_of(bench: Any, level: str, section: dict[str, Any], **fields: Any) -> list[str]:
    train(bench.open(level, "statistics", section, **fields))
    names: list[str] = bench.read().names()
    return names


MODES = [
    (["forward"], {"input_args", "input_kwargs", "output", "parameters"}, set(), False),
    (["backward"], set(), {"input", "output"}, True),
    (["input"], {"input_args", "input_kwargs"}, {"input"}, True),
    (["output"], {"output", "parameters"}, {"output"}, True),
    (["forward", "input"], {"input_args", "input_kwargs"}, set(), False),
    (["backward", "output"], set(), {"output"}, True),
    (["all"], {"input_args", "input_kwargs", "output", "parameters"}, {"input", "output"}, True),
    ([], {"input_args", "input_kwargs", "output", "parameters"}, {"input", "output"}, True),
]


@pytest.mark.parametrize(
    ("mode", "forward", "backward", "gradients"), MODES, ids=["+".join(row[0]) or "empty" for row in MODES]
)
def test_data_mode(bench: Any, mode: list[str], forward: set[str], backward: set[str], gradients: bool) -> None:
    train(bench.open("L0", "statistics", {"data_mode": mode}))
    recorded = bench.read()
    seen = {
        phase: {section for name, body in recorded.data.items() if phase in name for section in body}
        for phase in (".forward.", ".backward.")
    }
    seen[".forward."] -= {"training", "autograd"}  # facts about the call, which no data_mode takes away
    assert seen == {".forward.": forward, ".backward.": backward}
    assert bool(recorded.names("parameters_grad")) is gradients


def test_scope_of_apis_has_both_ends_whole(bench: Any) -> None:
    section = {"scope": ["Functional.relu.0.forward", "Functional.linear.1.forward"]}
    names = names_of(bench, "L1", section)
    assert names == ["Functional.relu.0.forward", "Tensor.__mul__.0.forward", "Functional.linear.1.forward"]
    assert "output" in bench.read().data["Functional.linear.1.forward"]


def test_scope_of_modules(bench: Any) -> None:
    section = {"scope": ["Module.act.ReLU.forward.0", "Module.fc2.Linear.forward.0"]}
    assert names_of(bench, "L0", section) == ["Module.act.ReLU.forward.0", "Module.fc2.Linear.forward.0"]
    assert "parameters" in bench.read().data["Module.fc2.Linear.forward.0"]


def test_a_module_that_closes_a_scope_brings_its_apis(bench: Any) -> None:
    section = {"scope": ["Module.act.ReLU.forward.0", "Module.fc2.Linear.forward.0"]}
    assert names_of(bench, "mix", section) == [
        "Functional.relu.0.forward",
        "Module.act.ReLU.forward.0",
        "Tensor.__mul__.0.forward",
        "Functional.linear.1.forward",
        "Module.fc2.Linear.forward.0",
    ]
    assert set(bench.read().data["Module.fc2.Linear.forward.0"]) >= {"output", "parameters"}


def test_scope_over_the_backward_pass(bench: Any) -> None:
    section = {"scope": ["Functional.linear.1.backward", "Functional.relu.0.backward"]}
    assert names_of(bench, "L1", section) == [
        "Functional.linear.1.backward",
        "Tensor.__mul__.0.backward",
        "Functional.relu.0.backward",
    ]


def test_scope_and_list_must_both_hold(bench: Any) -> None:
    scope = ["Functional.relu.0.forward", "Functional.linear.1.forward"]
    assert names_of(bench, "L1", {"scope": scope, "list": ["linear"]}) == ["Functional.linear.1.forward"]


def test_a_full_name_in_list_means_that_entry(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["Functional.relu.1.forward"]})
    debugger.start()
    for _ in range(12):
        F.relu(torch.ones(2))
    debugger.stop()
    assert bench.read().names() == ["Functional.relu.1.forward"]


def test_a_fragment_in_list_means_every_entry_with_it(bench: Any) -> None:
    names = names_of(bench, "L1", {"list": ["relu.0", "linear.1.forward"]})
    assert names == ["Functional.relu.0.forward", "Functional.linear.1.forward", "Functional.relu.0.backward"]


def test_a_listed_module_brings_what_runs_inside_it_at_mix(bench: Any) -> None:
    assert names_of(bench, "mix", {"list": ["Module.fc1.Linear.forward.0"]}) == [
        "Functional.linear.0.forward",
        "Module.fc1.Linear.forward.0",
    ]


def test_a_fragment_of_a_module_name_brings_its_gradients(bench: Any) -> None:
    assert set(names_of(bench, "L0", {"list": ["fc2"]})) == {
        "Module.fc2.Linear.forward.0",
        "Module.fc2.Linear.backward.0",
        "Module.fc2.Linear.parameters_grad.0",
    }


def test_list_beats_the_risk_level(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"list": ["reshape"]}, risk_level="CORE")
    debugger.start()
    torch.ones(4).reshape(2, 2)
    debugger.stop()
    assert bench.read().names() == ["Tensor.reshape.0.forward"]


def test_tensor_list_saves_the_tensors_of_some_entries(bench: Any) -> None:
    train(bench.open("L1", "statistics", {"tensor_list": ["relu"]}))
    recorded = bench.read()
    assert recorded.files() == [
        "Functional.relu.0.backward.input.0.pt",
        "Functional.relu.0.backward.output.0.pt",
        "Functional.relu.0.forward.input.0.pt",
        "Functional.relu.0.forward.output.0.pt",
    ]
    assert recorded.data["Functional.relu.0.forward"]["output"][0]["data_name"] in recorded.files()
    assert "data_name" not in recorded.data["Functional.linear.0.forward"]["output"][0]


def called_at(bench: Any, risk_level: str) -> set[str]:
    debugger = bench.open("L1", risk_level=risk_level)
    x = torch.randn(2, 4)
    debugger.start()
    F.linear(x, torch.randn(3, 4))
    F.gelu(x)
    x.reshape(4, 2)
    debugger.stop()
    return set(bench.read().names())


CORE = {"Functional.linear.0.forward"}
FOCUS = CORE | {"Functional.gelu.0.forward"}


@pytest.mark.parametrize(
    ("risk_level", "expected"), [("CORE", CORE), ("FOCUS", FOCUS), ("ALL", FOCUS | {"Tensor.reshape.0.forward"})]
)
def test_risk_level(bench: Any, risk_level: str, expected: set[str]) -> None:
    assert called_at(bench, risk_level) == expected


def test_what_the_risk_level_drops_still_counts(bench: Any) -> None:
    debugger = bench.open("L1", risk_level="CORE")
    debugger.start()
    F.gelu(torch.ones(2))
    F.linear(torch.ones(1, 2), torch.ones(1, 2))
    F.linear(torch.ones(1, 2), torch.ones(1, 2))
    debugger.stop()
    assert bench.read().names() == ["Functional.linear.0.forward", "Functional.linear.1.forward"]


def test_steps_with_ranges(bench: Any) -> None:
    train(bench.open("L1", step=[0, "2-3"]), steps=6)
    assert bench.steps() == ["step0", "step2", "step3"]


@pytest.mark.parametrize(("rank_id", "expected"), [(0, []), (4, ["step0"]), (6, ["step0"]), (7, [])])
def test_ranks_with_ranges(bench: Any, rank_id: int, expected: list[str]) -> None:
    train(bench.open("L1", rank=[2, "4-6"]), rank_id=rank_id)
    assert bench.steps() == expected


def test_a_process_without_rank_is_in_no_rank_list(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    train(bench.open("L1", rank=[0]), steps=2)
    assert bench.steps() == []
    assert capsys.readouterr().out.count("asks for rank 0, this process is without a rank") == 1


def test_an_empty_step_says_which_filter_and_what_was_seen(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert names_of(bench, "L1", {"list": ["conv"]}) == []
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "step is empty" in line]
    assert 'list ["conv"] let nothing through; names seen: Functional.linear.0.forward' in line


def test_an_empty_step_without_filter_says_so(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open("L1", risk_level="ALL")
    debugger.start()
    debugger.stop()
    debugger.step()
    assert "no call was seen between start and stop" in capsys.readouterr().out


def test_a_step_emptied_by_the_risk_level_says_so(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open("L1", risk_level="CORE")
    debugger.start()
    torch.ones(4).reshape(2, 2)
    debugger.stop()
    debugger.step()
    assert "no API of risk_level CORE was called" in capsys.readouterr().out


def test_a_scope_that_never_opens_is_explained(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scope = ["Functional.conv2d.0.forward", "Functional.conv2d.1.forward"]
    assert names_of(bench, "L1", {"scope": scope}) == []
    assert 'scope ["Functional.conv2d.0.forward", "Functional.conv2d.1.forward"] let nothing through' in (
        capsys.readouterr().out
    )
