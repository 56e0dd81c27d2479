"""A debugger made before ``os.fork``: the child may use it, writes into folders of its own, and gets no exception."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.adapters.pytorch.networks import Mlp

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # threads and fork, from Python 3.12 on
]

Job = Callable[[], Any]


def in_child(job: Job) -> int:
    """Run ``job`` in a forked child; its process id. What it raises fails the test."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            job()
            status = 0
        finally:
            os._exit(status)
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return child
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def data(root: Path, step: int, process: str, document: str = "dump.json") -> list[str]:
    return list(json.loads((root / f"step{step}" / process / document).read_text())["data"])


def prepared(bench: Any, state: str, level: str = "L1", **fields: Any) -> Any:
    """A debugger that has not started, is running, or has a step behind it; and a parent that has called gelu."""
    debugger, model = bench.open(level, risk_level="ALL", **fields), Mlp()
    if state != "idle":
        debugger.start(model)
        F.gelu(torch.ones(2))
    if state == "over":
        debugger.stop()
        debugger.step()
    return debugger


STATES = pytest.mark.parametrize("state", ["idle", "running", "over"])


@STATES
def test_the_child_goes_on_in_a_folder_of_its_own(bench: Any, state: str) -> None:
    debugger = prepared(bench, state)
    present = 1 if state == "over" else 0

    def job() -> None:
        F.relu(torch.ones(2))  # nothing is recorded before its start
        debugger.start()
        F.silu(torch.ones(2))
        debugger.stop()
        debugger.step()

    child = in_child(job)
    assert data(bench.root, present, f"proc{child}") == ["Functional.silu.0.forward"]
    bench.close()
    if state != "idle":
        assert data(bench.root, 0, f"proc{os.getpid()}") == ["Functional.gelu.0.forward"]


@pytest.mark.matrix("wide", sample="each value")
@STATES
@pytest.mark.parametrize("call", ["stop", "step", "save", "set_init_step", "restore_custom_api"])
def test_no_call_raises_in_a_child(bench: Any, state: str, call: str) -> None:
    debugger = prepared(bench, state)
    arguments = {
        "save": (torch.ones(1), "x"),
        "set_init_step": (4,),
        "restore_custom_api": (F, "nothing"),
    }
    in_child(lambda: getattr(debugger, call)(*arguments.get(call, ())))


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("fields", [{"async_dump": True}, {"dump_enable": True}], ids=["async_dump", "dump_enable"])
def test_what_runs_beside_the_training_runs_in_the_child_too(bench: Any, fields: Any) -> None:
    debugger = prepared(bench, "running", **fields)

    def job() -> None:
        debugger.step()  # the child was not started: it only counts
        debugger.start()
        F.silu(torch.ones(2))
        debugger.stop()

    assert data(bench.root, 1, f"proc{in_child(job)}") == ["Functional.silu.0.forward"]


def test_gradients_are_reported_once_in_a_child(bench: Any) -> None:
    debugger, model = bench.open("mix"), Mlp()
    debugger.start(model)  # hooks on its parameters, which the child gets copies of

    def job() -> None:
        debugger.start(model)
        model(torch.ones(1, 4)).sum().backward()
        debugger.stop()
        debugger.step()

    child = in_child(job)
    entries = data(bench.root, 0, f"proc{child}")
    assert [name for name in entries if "parameters_grad" in name]
    construct = json.loads((bench.root / "step0" / f"proc{child}" / "dump.json").read_text())["data"]
    gradients = construct["Module.fc1.Linear.parameters_grad.0"]
    assert all(len(values) == 1 for values in gradients.values())


def test_registered_functions_are_recorded_in_a_child(bench: Any) -> None:
    class Owner(nn.Module):
        pass

    Owner.own = lambda _, x: x * 2  # type: ignore[attr-defined]
    debugger = bench.open("L1")
    debugger.register_custom_api(Owner, "own", "Own")

    def job() -> None:
        debugger.start()
        Owner().own(torch.ones(1))
        debugger.stop()

    assert "Own.own.0.forward" in data(bench.root, 0, f"proc{in_child(job)}")


def test_a_rank_of_the_parent_stays_the_parents(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start(rank_id=3)
    debugger.stop()
    debugger.step()

    def record(rank: int) -> Job:
        def job() -> None:
            debugger.start(rank_id=rank)
            F.relu(torch.ones(1))
            debugger.stop()

        return job

    child = in_child(record(3))
    in_child(record(5))
    assert data(bench.root, 1, f"rank3_{child}") == data(bench.root, 1, "rank5") == ["Functional.relu.0.forward"]
    record(3)()
    assert data(bench.root, 1, "rank3") == ["Functional.relu.0.forward"]


def test_a_debugger_made_in_the_child_takes_what_it_is_given(bench: Any, tmp_path: Path) -> None:
    from msprobe.pytorch import PrecisionDebugger

    prepared(bench, "running")

    def job() -> None:
        debugger = PrecisionDebugger({"dump_path": str(tmp_path / "own"), "level": "L1"})
        debugger.start()
        F.relu(torch.ones(1))
        debugger.stop()

    assert data(tmp_path / "own", 0, f"proc{in_child(job)}") == ["Functional.relu.0.forward"]


def test_a_child_of_multiprocessing_writes_its_last_step_to_the_end(bench: Any) -> None:
    debugger, model = bench.open("L1", risk_level="ALL"), Mlp()

    def job() -> None:
        debugger.start(model)
        F.gelu(torch.ones(2))

    child: Any = multiprocessing.get_context("fork").Process(target=job)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert data(bench.root, 0, f"proc{child.pid}") == ["Functional.gelu.0.forward"]
