"""A run that asked for something that never came is told so in one line: a step, a token, a call, a configuration."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.pytorch import PrecisionDebugger
from tests import forked
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


PROGRAM = """
import os, sys, torch
from msprobe.pytorch import PrecisionDebugger
debugger = PrecisionDebugger({config!r})
"""
NEVER = "start() was never called in this process"
ROUNDS = "for _ in range(3): debugger.start(rank_id=0); torch.tanh(torch.ones(2)); debugger.stop()"


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param("sys.exit(3)", NEVER, id="it exits"),
        pytest.param("raise ValueError('of the program')", "", id="it fails before"),
        pytest.param("if os.fork(): debugger.start()", "", id="a forked child"),
    ],
)
def test_the_end_of_a_program_without_start(body: str, told: str, tmp_path: Path) -> None:
    program = PROGRAM.format(config={"dump_path": str(tmp_path / "dump"), "level": "L0"}) + body
    out = subprocess.run([forked.python(), "-c", program], capture_output=True, text=True, check=False).stdout
    assert out.count("[WARNING]") == bool(told), out
    assert told in out


@pytest.mark.parametrize(
    ("body", "fields", "told"),
    [
        pytest.param("", {}, NEVER + "; call start(model) before", id="no start"),
        pytest.param("debugger.step()", {}, NEVER + " (step() was, 1 times)", id="no start, but step"),
        pytest.param("debugger.start(); torch.tanh(torch.ones(2))", {}, "", id="one step without end"),
        pytest.param("debugger.start(); torch.tanh(torch.ones(2)); debugger.stop()", {}, "", id="one step"),
        pytest.param(ROUNDS, {}, "step() was never called: what 3 pairs of start() and stop()", id="no step"),
        pytest.param(ROUNDS + "; debugger.step()", {}, "", id="steps"),
        pytest.param(ROUNDS + "; debugger.service.current_iter += 1", {}, "", id="numbers set otherwise"),
        pytest.param(ROUNDS, {"step": [5]}, "step 5, this run had step 0 (step() was never called", id="step not met"),
        pytest.param("debugger.start()", {"level": "debug"}, "save() was never called", id="no save"),
        pytest.param("debugger.save(1, 'x')", {"level": "debug"}, "", id="save"),
    ],
)
def test_a_forgotten_call_is_told_in_one_line_at_the_end(
    body: str, fields: dict[str, Any], told: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    debugger = bench.open(**{"level": "L1", **fields})
    exec(body, {"debugger": debugger, "torch": torch})
    bench.close()
    lines = warnings(capsys)
    assert len(lines) == bool(told), lines
    assert told in "".join(lines)


@pytest.mark.parametrize(
    ("rank", "world", "told"),
    [
        pytest.param([3], "2", "rank 3, this process is rank 0 of 2, from 0", id="too few"),
        pytest.param([3], "", "rank 3, this process is rank 0", id="unknown"),
        pytest.param([3], "4", "", id="another rank is collected"),
        pytest.param([0], "4", "", id="this rank is collected"),
    ],
)
def test_a_rank_that_does_not_exist_is_told_at_the_start_and_at_the_end(
    rank: list[int],
    world: str,
    told: str,
    bench: Bench,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    debugger = bench.open(rank=rank)
    for _ in range(2):
        debugger.start(rank_id=0)
        torch.tanh(torch.ones(2))
        debugger.stop()
        debugger.step()
    bench.close()
    heads = ["nothing is collected", "nothing was collected"] if told else []
    assert warnings(capsys) == [f"{head}: the configuration asks for {told}" for head in heads]


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
    assert PrecisionDebugger(config, rank=[3]) is first
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
