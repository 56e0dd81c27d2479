"""``save``: single values and their gradients, at every level."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.core.store.reader import find_dumps, load_dump
from tests import forked
from tests.fresh_debugger import forget
from tests.integrations.conftest import Bench

pytestmark = pytest.mark.torch


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Bench]:
    forget()
    yield Bench(tmp_path)
    forget()


def debugger(points: Bench, **fields: Any) -> Any:
    from msprobe.pytorch import PrecisionDebugger

    return PrecisionDebugger(points.config(**{"level": "debug", **fields}))


def test_a_tree_and_its_gradients(points: Bench) -> None:
    probe = debugger(points)
    x = torch.tensor([1.0, -3.0], requires_grad=True)
    y = x * 2
    probe.save({"y": y, "inner": [x, (1, "text")], "flag": True}, "tree")
    (y * torch.tensor([1.0, 5.0])).sum().backward()
    probe.step()
    found = points.entries("step0/proc", "debug.json")
    assert list(found) == ["tree.0.debug", "tree_grad.0.debug"]
    saved, gradients = found.values()
    assert (saved["y"]["Max"], saved["inner"][1]) == (
        2.0,
        [{"type": "int", "value": 1}, {"type": "str", "value": "text"}],
    )
    assert (gradients["y"]["Max"], gradients["inner"][0]["Max"]) == (5.0, 10.0)
    assert (gradients["inner"][1], gradients["flag"]) == ([None, None], None)


def test_level_debug_writes_nothing_else_and_needs_no_start(points: Bench) -> None:
    probe = debugger(points)
    probe.save(torch.ones(1), "a")
    probe.start()
    torch.relu(torch.ones(1))
    probe.stop()
    (folder,) = (points.dump / "step0").iterdir()
    assert [path.name for path in folder.glob("*.json")] == ["debug.json"]


def test_at_other_levels_the_points_stand_beside_the_dump(points: Bench) -> None:
    probe = debugger(points, level="L1")
    probe.start()
    probe.save(torch.relu(torch.ones(2)), "activation")
    probe.stop()
    probe.step()
    assert list(points.entries("step0/proc")) == ["Torch.relu.0.forward"]
    assert points.entries("step0/proc", "debug.json")["activation.0.debug"]["Max"] == 1.0


def test_counts_per_name_and_step(points: Bench) -> None:
    probe = debugger(points)
    for name in ("a", "a", "b"):
        probe.save(1, name, save_backward=False)
    probe.step()
    probe.save(1, "a", save_backward=False)
    probe.step()
    assert list(points.entries("step0/proc", "debug.json")) == ["a.0.debug", "a.1.debug", "b.0.debug"]
    assert list(points.entries("step1/proc", "debug.json")) == ["a.0.debug"]


def test_gradients_that_never_come_stay_null(points: Bench) -> None:
    probe = debugger(points)
    x, unused = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    probe.save([x, unused], "pair")
    x.sum().backward()
    probe.step()
    first, second = points.entries("step0/proc", "debug.json")["pair_grad.0.debug"]
    assert first["Max"] == 1.0
    assert second is None


def test_a_parameter_is_no_longer_watched_after_its_step(points: Bench) -> None:
    probe = debugger(points)
    weight = torch.ones(1, requires_grad=True)
    for _ in range(3):
        probe.save(weight, "weight")
        weight.sum().backward()
        probe.step()
    assert not weight._backward_hooks


def test_tensors_are_kept_with_task_tensor(points: Bench) -> None:
    probe = debugger(points, task="tensor")
    x = torch.arange(3.0, requires_grad=True)
    probe.save({"x": [x]}, "tree")
    x.sum().backward()
    probe.step()
    (folder,) = (points.dump / "step0").glob("*/dump_tensor_data")
    assert sorted(path.name for path in folder.iterdir()) == ["tree.0.debug.x.0.pt", "tree_grad.0.debug.x.0.pt"]
    assert torch.equal(torch.load(folder / "tree.0.debug.x.0.pt", weights_only=True), torch.arange(3.0))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((None, "a"), "variable is NoneType"),
        (({"a": [None]}, "a"), "variable['a'][0] is NoneType"),
        (({1: 2}, "a"), "keys are str"),
        ((1, 5), "name is a non-empty str"),
        ((1, "a", 1), "save_backward is True or False"),
        ((object(), "a"), "variable is object"),
    ],
)
def test_what_cannot_be_saved_is_told(
    points: Bench, arguments: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    debugger(points).save(*arguments)
    assert said in capsys.readouterr().out
    assert not points.dump.exists()


def test_a_value_that_contains_itself(points: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    loop: list[Any] = []
    loop.append(loop)
    debugger(points).save(loop, "loop")
    assert "contains itself" in capsys.readouterr().out


@pytest.mark.parametrize("fields", [{"step": [3]}, {"rank": [7]}])
def test_steps_and_ranks_left_out_save_nothing(points: Bench, fields: dict[str, Any]) -> None:
    debugger(points, **fields).save(1, "a")
    assert not points.dump.exists()


def test_a_killed_process_leaves_its_points(tmp_path: Path) -> None:
    config = {"dump_path": str(tmp_path / "dump"), "level": "debug", "task": "statistics"}
    program = (
        "import os, time, torch\n"
        "from msprobe.pytorch import PrecisionDebugger\n"
        f"PrecisionDebugger({config!r}).save(torch.full((2,), 7.0), 'last')\n"
        "time.sleep(0.3)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([forked.python(), "-c", program], env=dict(os.environ), check=False)
    (place,) = find_dumps(tmp_path / "dump")
    dump = load_dump(place)
    assert dump.recovered
    assert dump.data["last.0.debug"]["Max"] == 7.0
    assert json.dumps(dump.data["last_grad.0.debug"]) == "null"


def test_start_and_stop_at_level_debug_leave_nothing_by_themselves(
    points: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    probe = debugger(points)
    for value in (None, 1, None):
        probe.start(torch.nn.Linear(1, 1))
        if value is not None:
            probe.save(value, "a")
        probe.stop()
        probe.step()
    forget()
    assert points.folders() == ["step1/proc"]
    assert "empty" not in capsys.readouterr().out
