"""Compiled code when something is out of the ordinary: a compiler that starts anew, a probe that fails."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from msprobe.adapters.pytorch.compile import compiled_calls
from msprobe.adapters.pytorch.compile.compiled_calls import CALLS
from msprobe.adapters.pytorch.compile.recompilation import supported
from tests.adapters.pytorch.networks import Mlp

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),  # of the compiler, about itself
    pytest.mark.skipif(not supported(), reason="this torch has no operators with an ordered effect"),
    pytest.mark.usefixtures("fresh_compiler"),
]


def gradient(function: Any) -> torch.Tensor:
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    function(x).square().sum().backward()
    assert x.grad is not None
    return x.grad


def test_a_compiler_that_is_reset_while_collecting_stays_silent(bench: Any) -> None:
    model = Mlp()
    names = []
    for resets in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="aot_eager")
        debugger = bench.open("mix", risk_level="ALL")
        debugger.start(model=model)
        if resets:
            torch._dynamo.reset()
        gradient(compiled)
        debugger.stop()
        names.append(list(bench.read().data))
        debugger.step()
        for path in bench.steps():
            (bench.root / path).rename(bench.root.with_name(f"{path}.{resets}"))
    assert names[0] == names[1]
    handler = torch._dynamo.callback.callback_handler
    assert (handler.start_callbacks, handler.end_callbacks) == ([], [])
    assert "clear" not in vars(handler)


def test_a_compiled_model_whose_modules_do_not_report_is_told(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The program has switched off what chooses between versions, so the one without operators goes on running."""
    model = Mlp()
    compiled = torch.compile(model, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe})
    expected = gradient(compiled)
    debugger = bench.open("L0")
    with caplog.at_level(logging.WARNING, logger="msprobe"):
        for _ in range(2):
            debugger.start(model=compiled)
            assert torch.equal(gradient(compiled), expected)
            debugger.stop()
    told = [record.message for record in caplog.records if "were not recorded" in record.message]
    assert told == [
        "the modules inside a compiled model were not recorded, first of them Module.fc1.Linear: call "
        "torch._dynamo.reset() before start()"
    ]


def test_a_compiled_model_that_reports_or_was_not_called_is_not_told(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = Mlp()
    compiled = torch.compile(model, backend="aot_eager")
    debugger = bench.open("L0")
    with caplog.at_level(logging.WARNING, logger="msprobe"):
        for called in (False, True):
            debugger.start(model=compiled)
            if called:
                gradient(compiled)
            debugger.stop()
    assert "were not recorded" not in caplog.text


def _broken(*_: Any) -> Any:
    raise ValueError("broken probe")


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("where", ["at_run_time", "while_tracing"])
def test_a_probe_that_fails_is_told_and_changes_nothing(
    bench: Any, backend: str, where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Mlp()
    expected = gradient(torch.compile(model, backend=backend, fullgraph=True))
    if where == "while_tracing":
        monkeypatch.setattr(compiled_calls, "pack", _broken)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    debugger = bench.open("L0")
    with caplog.at_level(logging.ERROR, logger="msprobe"):
        debugger.start(model=model)
        if where == "at_run_time":
            assert CALLS.target is not None
            CALLS.target = replace(CALLS.target, site=_broken)  # until the stop
        assert torch.equal(gradient(compiled), expected)
        debugger.stop()
    assert "could not be recorded: ValueError: broken probe" in caplog.text


@pytest.mark.parametrize("risk_level", ["FOCUS", "ALL"])
def test_a_step_of_compiled_code_alone_says_which_levels_see_it(
    bench: Any, risk_level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    function = torch.compile(torch.nn.functional.gelu, backend="aot_eager")
    debugger = bench.open("L1", risk_level=risk_level)
    debugger.start()
    function(torch.ones(3))
    debugger.stop()
    debugger.step()
    assert (
        "of compiled code PrecisionDebugger records the modules alone, at levels L0 and mix" in capsys.readouterr().out
    )


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("level", ["L1", "mix"])
def test_what_is_compiled_while_collecting_has_its_gradients(bench: Any, level: str, backend: str) -> None:
    """The compiler tries functions out on tensors without values: observed, the graph would have none."""
    layer = torch.nn.Linear(4, 4)
    expected = gradient(lambda x: torch.relu(layer(x)))
    compiled = torch.compile(lambda x: torch.relu(layer(x)), backend=backend)
    debugger = bench.open(level, risk_level="ALL")
    debugger.start(model=torch.nn.Sequential(layer))
    assert torch.equal(gradient(compiled), expected)
    debugger.stop()
    tried_out = {"Torch.mm.0.forward", "Torch.where.0.forward", "Torch.transpose.0.forward", "Tensor.to.0.forward"}
    assert not tried_out & set(bench.read().data)


def test_models_that_die_while_the_compiler_reads_disturb_nothing(bench: Any) -> None:
    """The compiler iterates over the numbers of all modules; those of dead ones go away later."""
    earlier = [torch.nn.Sequential(torch.nn.Linear(1, 1)) for _ in range(300)]
    debugger = bench.open("L0")
    debugger.start(model=earlier)
    debugger.stop()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    expected = gradient(model)
    debugger.start(model=model)

    def drop_one(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("variables/builder.py") and earlier:
            earlier.pop()

    sys.setprofile(drop_one)
    try:
        result = gradient(torch.compile(model, backend="aot_eager"))
    finally:
        sys.setprofile(None)
    assert torch.equal(result, expected)
    debugger.stop()
    assert len(earlier) < 300
    assert bench.read().names("Module.0.Linear")


LOADED_WHILE_COLLECTING = """
import sys
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger

level, folder = sys.argv[1:]
assert "torch._dynamo" not in sys.modules
originals = torch.compile, torch.relu, nn.Module.__call__
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
debugger = PrecisionDebugger(dump_path=folder, level=level, task="statistics")
debugger.start(model)
compiled = torch.compile(model, backend="aot_eager")
assert torch.compile is originals[0]
torch.relu(compiled(torch.ones(2, 4, requires_grad=True))).sum().backward()
debugger.stop()
assert (torch.compile, torch.relu, nn.Module.__call__) == originals
assert torch.relu in torch._dynamo.trace_rules.get_torch_obj_rule_map()
"""


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_compiler_that_is_loaded_while_collecting_sees_the_originals(level: str, tmp_path: Path) -> None:
    """A process of its own, because this one has loaded the compiler."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", LOADED_WHILE_COLLECTING, level, str(tmp_path)], check=True)
    (dump,) = tmp_path.rglob("dump.json")
    names = list(json.loads(dump.read_text(encoding="utf-8"))["data"])
    modules = [name for name in names if name.startswith("Module")]
    assert len(modules) == {"L0": 5, "L1": 0, "mix": 5}[level]
    assert ("Torch.relu.0.forward" in names) is (level != "L0")
