"""A run that asked for something that never came is told so in one line: a step, a token, a call, a configuration."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from msprobe.pytorch import PrecisionDebugger
from tests.adapters.pytorch.conftest import Bench
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = capsys.readouterr().out.splitlines()
    return [line.partition("[WARNING] ")[2] for line in lines if "[WARNING]" in line]


def run(debugger: Any, steps: int = 2, **arguments: Any) -> None:
    model = Mlp()
    for _ in range(steps):
        debugger.start(model, **arguments)
        model(torch.ones(1, 4))
        debugger.stop()
        debugger.step()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param([7], "step 7, this run had steps 0 to 1", id="later"),
        pytest.param(["5-7", 9], "step 5-7, 9, this run had steps 0 to 1", id="ranges"),
        pytest.param([1], None, id="reached"),
        pytest.param([], None, id="all"),
    ],
)
def test_steps(asked: list[Any], said: str | None, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    run(bench.open("mix", step=asked))
    capsys.readouterr()
    bench.close()
    told = [] if said is None else [f"nothing was collected: the configuration asks for {said} (step() counts, from 0)"]
    assert warnings(capsys) == told


@pytest.mark.parametrize(("first", "told"), [(0, 0), (1, 1), (5, 1)])
def test_tokens(first: int, told: int, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    run(bench.open("mix"), steps=1, token_range=[first, 9])
    text = f"the token range [{first}, 9] was not reached, the model was called 1 times since start()"
    assert sum(text in line for line in warnings(capsys)) == told


def test_calls_to_be_fed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    run(bench.open("L0", "tensor"), steps=1)
    names = ["Module.fc1.Linear.forward.0", "Module.fc1.Linear.forward.3", "Module.fcc1.Linear.forward.0"]
    capsys.readouterr()
    run(bench.open("L0", load={"path": str(bench.root), "modules": names}), steps=1)
    head = "load: Module.{} did not come in this step, nothing was fed to it; Module.fc1.Linear was called"
    assert warnings(capsys) == [head.format("fc1.Linear.forward.3"), head.format("fcc1.Linear.forward.0")]


def test_another_configuration_in_the_same_process(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"dump_path": str(bench.root), "level": "L1"}
    bench.close()
    first = PrecisionDebugger(config)
    capsys.readouterr()
    assert PrecisionDebugger(config) is PrecisionDebugger() is PrecisionDebugger(dict(config)) is first
    assert warnings(capsys) == []
    assert PrecisionDebugger(config, level="L0") is first
    (line,) = warnings(capsys)
    assert line == (
        "PrecisionDebugger exists already in this process and keeps its configuration: "
        "what it is constructed with now is not used"
    )


def test_a_model_without_modules_inside(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    debugger, model = bench.open("L0"), torch.nn.Linear(2, 2)
    debugger.start(model)
    model(torch.ones(1, 2))
    debugger.stop()
    debugger.step()
    assert any("no call of a module inside the model was seen" in line for line in warnings(capsys))
