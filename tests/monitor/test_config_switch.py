"""``DYNAMIC_MONITOR``: the configuration file switches the monitor on and off while the training runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from msprobe.pytorch import TrainerMon  # noqa: E402
from tests.monitor.trained import Net, rows_of, train  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.setenv("DYNAMIC_MONITOR", "True")
    return tmp_path / "out"


class File:
    """The configuration file; each writing has a time of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._time = 1_000_000_000

    def write(self, text: str) -> None:
        self.path.write_text(text)
        self._time += 10
        os.utime(self.path, (self._time, self._time))

    def set(self, **values: object) -> None:
        self.write(json.dumps({"wg_distribution": True, "start_step": 90, **values}, indent=2))


def run(file: File, changes: dict[int, Callable[[], None]], steps: int = 8) -> None:
    """Train; ``changes`` are made after the steps with their numbers."""
    train(str(file.path), steps=steps, each_step=lambda step, monitor: changes.get(step, lambda: None)())


def steps_of(output: Path) -> list[int]:
    return sorted({int(row["step"]) for row in rows_of(output, "grad_reduced")})


def test_it_begins_in_the_step_after_the_change_and_switches_itself_off(tmp_path: Path, output: Path) -> None:
    file = File(tmp_path / "c.json")
    file.set(dynamic_on=False, collect_times=2)
    run(file, {2: lambda: file.set(dynamic_on=True, collect_times=2)})
    assert steps_of(output) == [4, 5]
    text = file.path.read_text()
    assert json.loads(text)["dynamic_on"] is False
    assert '\n  "dynamic_on": false' in text  # the text of the rest stays


def test_it_can_be_switched_on_again_with_other_settings(tmp_path: Path, output: Path) -> None:
    file = File(tmp_path / "c.json")
    file.set(dynamic_on=True, collect_times=1)
    run(file, {3: lambda: file.set(dynamic_on=True, collect_times=5), 5: lambda: file.set(dynamic_on=False)})
    assert steps_of(output) == [1, 5, 6]
    assert len(list(output.iterdir())) == 1


@pytest.mark.parametrize("text", ['{"dynamic_on": tr', '{"ops": 3, "dynamic_on": true}', ""])
def test_a_broken_file_is_one_line_and_the_configuration_before_stays(
    tmp_path: Path, output: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    file = File(tmp_path / "c.json")
    file.set(dynamic_on=True, collect_times=100)
    run(file, {2: lambda: file.write(text)}, steps=6)
    assert steps_of(output) == [1, 2, 3, 4, 5]
    assert caplog.text.count("the changed configuration is not used") == 1


def test_a_file_that_is_gone_is_one_line(tmp_path: Path, output: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = File(tmp_path / "c.json")
    file.set(dynamic_on=True, collect_times=100)
    run(file, {2: file.path.unlink}, steps=6)
    assert steps_of(output) == [1, 2, 3, 4, 5]
    assert caplog.text.count("the training goes on as before") == 1


def test_while_it_is_off_only_the_steps_are_seen(tmp_path: Path) -> None:
    file = File(tmp_path / "c.json")
    file.set(dynamic_on=False)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon(str(file.path))
    monitor.set_monitor(model, optimizer)
    hooks = [hook for one in model.modules() for hook in (*one._forward_hooks, *one._forward_pre_hooks)]
    assert not hooks
    assert not any(one._post_accumulate_grad_hooks for one in model.parameters())
    monitor.stop()
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks
