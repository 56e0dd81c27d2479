"""Recorded overflows run again: what the CPU has too is normal, what a kernel alone makes is not."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from msprobe.adapters.pytorch.replay.runner import TorchReplayer, make_replayer
from msprobe.cli.main import run
from msprobe.core.store.reader import only_dump
from msprobe.precheck.overflowing_calls import OverflowStatus, overflows, run_again
from msprobe.pytorch import PrecisionDebugger
from msprobe.replay.cases import cases_of
from tests.precheck.planted_kernels import PlantedKernel

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("forked_workers")]


def program() -> None:
    large = torch.full((4,), 60000.0, dtype=torch.float16, requires_grad=True)
    torch.mul(large, large).sum().backward()
    torch.log(torch.zeros(3))
    torch.exp(torch.ones(3))
    torch.tensor([float("nan")]).sin()


@pytest.fixture(params=("statistics", "tensor"))
def dump(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(tmp_path / "run"), "level": "L1", "task": request.param})
    debugger.start()
    program()
    debugger.stop()
    debugger.step()
    return tmp_path / "run"


@pytest.fixture(scope="module")
def replayer() -> TorchReplayer:
    return make_replayer()


def test_calls_that_overflow_are_chosen_and_normal(dump: Path, replayer: TorchReplayer) -> None:
    cases = {case.name: case for case in cases_of(only_dump(dump)) if overflows(case)}
    assert {"Torch.mul.0", "Torch.log.0", "Tensor.sin.0"} <= cases.keys()
    assert "Torch.exp.0" not in cases
    found = {name: run_again(case, replayer, "cpu") for name, case in cases.items()}
    assert {call.forward for call in found.values()} == {OverflowStatus.NORMAL}


def test_what_a_wrong_kernel_makes_is_abnormal(dump: Path, replayer: TorchReplayer) -> None:
    (case,) = [case for case in cases_of(only_dump(dump)) if case.name == "Torch.exp.0"]
    assert run_again(case, replayer, "cpu").forward is OverflowStatus.NOT_SEEN
    with PlantedKernel("exp", "infinity").planted():
        found = run_again(case, replayer, "cpu")
    assert found.is_abnormal
    assert found.message == "output.0 overflows on the device alone"


def test_the_command_writes_a_table_and_a_document(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run_overflow_check", "-api_info", str(dump), "-o", str(tmp_path / "out"), "--fail-on", "abnormal"]
    assert run(words) == 0
    assert "0 abnormal" in capsys.readouterr().out
    (table,) = (tmp_path / "out").glob("*.csv")
    with table.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["API name", "Forward", "Backward", "Message"]
    assert ["Torch.log.0", "normal", "SKIP", "output.0 overflows on both"] in lines
    (document,) = (tmp_path / "out").glob("*.json")
    assert {call["name"] for call in json.loads(document.read_text())["calls"]} == {line[0] for line in lines[1:]}
