"""dump_enable: what the configuration file says at the time decides, whatever is written into it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.config import watch
from msprobe.core.config.watch import ENABLED_SECONDS, RETRY_SECONDS, SETTLING_SECONDS
from msprobe.pytorch import PrecisionDebugger
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch


class File:
    """The configuration file of a run."""

    def __init__(self, bench: Any, path: Path) -> None:
        self.path = path
        self.content = {"task": "statistics", "level": "L1", "dump_path": str(bench.root), "risk_level": "ALL"}

    def write(self, **fields: Any) -> None:
        self.content = {**self.content, **fields}
        self.path.write_text(json.dumps(self.content))

    def change(self, **fields: Any) -> None:
        """Write the fields and have the debugger look at once."""
        self.write(**fields)
        assert PrecisionDebugger._maybe_reload_config(force=True)


@pytest.fixture
def file(bench: Any, tmp_path: Path) -> File:
    bench.close()
    return File(bench, tmp_path / "config.json")


MODEL = Mlp()


def train(steps: int = 1) -> None:
    for _ in range(steps):
        PrecisionDebugger.start(MODEL)
        MODEL(F.relu(torch.ones(1, 4)))
        PrecisionDebugger.stop()
        PrecisionDebugger.step()


def test_switching_on_and_off(file: File, bench: Any) -> None:
    file.write(dump_enable=False)
    PrecisionDebugger(str(file.path))
    train(2)
    assert not bench.root.exists()
    file.change(dump_enable=True)
    train(2)
    file.change(dump_enable=False)
    train()
    assert bench.steps() == ["step2", "step3"]


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("before", ["L0", "L1", "mix"])
@pytest.mark.parametrize("after", ["L0", "L1", "mix"])
def test_every_level_can_become_every_other(file: File, bench: Any, before: str, after: str) -> None:
    file.write(dump_enable=True, level=before)
    PrecisionDebugger(str(file.path))
    train()
    file.change(level=after)
    train()
    for step, level in ((0, before), (1, after)):
        recorded = bench.read(step)
        assert recorded.dump["level"] == level
        assert bool(recorded.names("Module.fc1")) == (level != "L1")
        assert bool(recorded.names("Functional.relu")) == (level != "L0")


def test_a_model_given_earlier_serves_a_level_that_needs_one(file: File, bench: Any) -> None:
    file.write(dump_enable=True)
    debugger = PrecisionDebugger(str(file.path))
    debugger.start(MODEL)
    debugger.stop()
    debugger.step()
    file.change(level="L0")
    debugger.start()
    MODEL(torch.ones(1, 4))
    debugger.stop()
    assert bench.read(1).names("Module.fc1.Linear.forward.0")


def test_task_and_path_change_and_registered_functions_stay(file: File, bench: Any, tmp_path: Path) -> None:
    file.write(dump_enable=True)
    debugger = PrecisionDebugger(str(file.path))
    owner = type("owner", (), {"double": staticmethod(lambda x: x * 2)})
    debugger.register_custom_api(owner, "double", "Mine")
    train()
    bench.root = tmp_path / "elsewhere"
    file.change(task="tensor", dump_path=str(bench.root))
    debugger.start()
    owner.double(torch.ones(2))
    debugger.stop()
    recorded = bench.read(1)
    assert recorded.dump["task"] == "tensor"
    assert "Mine.double.0.forward.output.0.pt" in recorded.files()


@pytest.mark.parametrize("text", ["", '{"task": "stat', '{"task": "no such task"}', "[]"])
def test_a_file_that_cannot_be_used_stops_collection_until_it_can(file: File, bench: Any, text: str) -> None:
    file.write(dump_enable=True)
    PrecisionDebugger(str(file.path))
    train()
    file.path.write_text(text)
    PrecisionDebugger._maybe_reload_config(force=True)
    train()
    file.change()
    train()
    assert bench.steps() == ["step0", "step2"]


@pytest.mark.parametrize("text", ["", '{"task": "stat'], ids=["empty", "half"])
def test_a_file_that_is_being_written_costs_no_record(
    file: File, bench: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks of the tool's own, at the start of one step and within the next, while the file is written in place."""
    monkeypatch.setattr(watch, "SETTLING_SECONDS", 60)  # so that a busy machine does not take it for finished
    file.write(dump_enable=True)
    PrecisionDebugger(str(file.path))
    train()
    time.sleep(ENABLED_SECONDS)
    file.path.write_text(text)
    train()
    PrecisionDebugger.start(MODEL)
    F.relu(torch.ones(1))
    time.sleep(RETRY_SECONDS)
    PrecisionDebugger.stop()  # looks again: still being written
    PrecisionDebugger.start(MODEL)
    F.relu(torch.ones(1))
    file.write(task="tensor")
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    time.sleep(RETRY_SECONDS)
    train()
    assert bench.steps() == ["step0", "step1", "step2", "step3"]
    assert bench.read(2).names() == ["Functional.relu.0.forward", "Functional.relu.1.forward"]
    assert [bench.read(step).dump["task"] for step in range(4)] == ["statistics"] * 3 + ["tensor"]


def test_a_file_that_stays_unusable_stops_collection_with_one_warning(
    file: File, bench: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write(dump_enable=True)
    PrecisionDebugger(str(file.path))
    time.sleep(ENABLED_SECONDS)
    file.path.write_text("{")
    train()  # step 0
    time.sleep(SETTLING_SECONDS)
    train()  # step 1: the look is at its start
    time.sleep(ENABLED_SECONDS)
    train()
    assert capsys.readouterr().out.count("collection is off until it is good") == 1
    file.write()
    time.sleep(ENABLED_SECONDS)  # and not the pause of a collection that was switched off
    train()
    assert bench.steps() == ["step0", "step3"]


def test_turning_off_in_the_middle_of_a_step_publishes_what_is_there(file: File, bench: Any) -> None:
    file.write(dump_enable=True)
    debugger = PrecisionDebugger(str(file.path))
    debugger.start()
    F.relu(torch.ones(1))
    file.change(dump_enable=False)
    F.relu(torch.ones(1))
    assert bench.read().names() == ["Functional.relu.0.forward"]
    file.change(dump_enable=True)
    debugger.start()
    F.relu(torch.ones(1))
    debugger.stop()
    assert bench.read().names() == ["Functional.relu.0.forward", "Functional.relu.1.forward"]


def test_another_change_in_the_middle_of_a_step_loses_nothing(file: File, bench: Any) -> None:
    file.write(dump_enable=True)
    debugger = PrecisionDebugger(str(file.path))
    debugger.start()
    F.relu(torch.ones(1))
    file.change(task="tensor")
    debugger.start()  # would overwrite the step
    F.relu(torch.ones(1))
    debugger.stop()
    debugger.step()
    train()
    assert bench.read(0).names() == ["Functional.relu.0.forward"]
    assert bench.read(0).dump["task"] == "statistics"
    assert bench.read(1).dump["task"] == "tensor"


def test_a_run_that_never_stops_goes_on_under_the_new_configuration(file: File, bench: Any) -> None:
    file.write(dump_enable=True, level="L0")
    debugger = PrecisionDebugger(str(file.path))
    debugger.start(MODEL)
    MODEL(torch.ones(1, 4))
    file.write(level="mix")
    debugger.step()  # too early to look at the file again
    assert PrecisionDebugger._maybe_reload_config(force=True)
    debugger.step()
    MODEL(torch.ones(1, 4))
    debugger.stop()
    assert bench.read(2).dump["level"] == "mix"
    assert bench.read(2).names("Functional.linear")


def test_arguments_of_the_constructor_beat_the_file_every_time(file: File, bench: Any, tmp_path: Path) -> None:
    file.write(dump_enable=True, dump_path=str(tmp_path / "never"))
    PrecisionDebugger(str(file.path), dump_path=str(bench.root))
    train()
    file.change(task="tensor")
    train()
    assert bench.steps() == ["step0", "step1"]
    assert not (tmp_path / "never").exists()


def test_a_change_that_start_cannot_serve_does_not_end_the_training(
    file: File, bench: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write(dump_enable=True)
    debugger = PrecisionDebugger(str(file.path))
    debugger.start()
    debugger.stop()
    debugger.step()
    file.change(level="L0")  # and no model was ever given
    debugger.start()
    debugger.stop()
    assert "needs the model" in capsys.readouterr().out


def test_a_dict_has_nothing_to_watch(bench: Any) -> None:
    bench.open("L1", dump_enable=False)
    train()
    assert not PrecisionDebugger._maybe_reload_config(force=True)
    assert not bench.root.exists()


def test_without_the_key_the_file_is_read_once(file: File, bench: Any) -> None:
    file.write()
    PrecisionDebugger(str(file.path))
    file.write(task="tensor")
    assert not PrecisionDebugger._maybe_reload_config(force=True)
    train()
    assert bench.read().dump["task"] == "statistics"
