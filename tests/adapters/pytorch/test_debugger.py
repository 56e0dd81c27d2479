"""start, stop and step: what belongs to which step, and what a wrong use says."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger
from tests.adapters.pytorch.networks import Mlp

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 5)


def test_several_start_and_stop_in_one_step_count_on(bench: Any) -> None:
    debugger = bench.open()
    for _ in range(2):
        debugger.start()
        F.relu(X)
        debugger.stop()
        F.gelu(X)
    debugger.step()
    debugger.start()
    F.relu(X)
    debugger.stop()
    debugger.step()
    assert bench.read(0).names() == ["Functional.relu.0.forward", "Functional.relu.1.forward"]
    assert bench.read(1).names() == ["Functional.relu.0.forward"]


def test_step_without_stop_goes_on_collecting(bench: Any) -> None:
    debugger = bench.open()
    debugger.start()
    for _ in range(3):
        F.relu(X)
        debugger.step()
    debugger.stop()
    assert [bench.read(step).names() for step in range(3)] == [["Functional.relu.0.forward"]] * 3


def test_step_without_start_only_counts(bench: Any) -> None:
    debugger = bench.open()
    debugger.step()
    debugger.step()
    debugger.start()
    F.relu(X)
    debugger.stop()
    assert bench.steps() == ["step2"]


def test_start_twice_is_start_once(bench: Any) -> None:
    debugger = bench.open()
    debugger.start()
    debugger.start()
    F.relu(X)
    debugger.stop()
    debugger.stop()
    assert bench.read().names() == ["Functional.relu.0.forward"]


def test_set_init_step_numbers_the_steps(bench: Any) -> None:
    debugger = bench.open()
    debugger.step()
    debugger.set_init_step(7)
    for _ in range(2):
        debugger.start()
        F.relu(X)
        debugger.stop()
        debugger.step()
    assert bench.steps() == ["step7", "step8"]


def test_rank_id_names_the_folder(bench: Any) -> None:
    debugger = bench.open()
    debugger.start(rank_id=5)
    F.relu(X)
    debugger.stop()
    assert bench.read().folder.name == "rank5"


def test_without_rank_the_process_names_the_folder(bench: Any) -> None:
    debugger = bench.open()
    debugger.start()
    debugger.stop()
    assert bench.read().folder.name == f"proc{os.getpid()}"


def test_nothing_is_written_before_start(bench: Any) -> None:
    bench.open()
    assert not bench.root.exists()


def test_the_class_can_be_used_like_the_object(bench: Any) -> None:
    bench.open()
    PrecisionDebugger.start()
    F.relu(X)
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    assert bench.read().names() == ["Functional.relu.0.forward"]


def test_there_is_one_debugger(bench: Any) -> None:
    first = bench.open()
    assert PrecisionDebugger() is first
    assert PrecisionDebugger(step=[5]) is first


def test_gradients_after_stop_belong_to_the_step(bench: Any) -> None:
    debugger = bench.open("mix")
    model = Mlp()
    debugger.start(model=model)
    loss = model(torch.randn(3, 4)).sum()
    debugger.stop()
    F.gelu(X)
    loss.backward()
    debugger.step()
    names = bench.read().names()
    assert {"Functional.linear.0.backward", "Module.fc2.Linear.backward.0"} <= set(names)
    assert "Module.fc1.Linear.parameters_grad.0" in names
    assert not [name for name in names if "gelu" in name]


def test_gradients_after_step_belong_to_no_step(bench: Any) -> None:
    debugger = bench.open("mix")
    model = Mlp()
    debugger.start(model=model)
    loss = model(torch.randn(3, 4)).sum()
    debugger.stop()
    debugger.step()
    debugger.start(model=model)
    loss.backward()
    debugger.stop()
    debugger.step()
    assert not bench.read(0).names("backward")
    assert not bench.read(1).names("backward")


def test_a_second_backward_pass_replaces_the_first(bench: Any) -> None:
    debugger = bench.open()
    x = X.clone().requires_grad_()
    debugger.start()
    y = F.relu(x)
    y.backward(torch.full_like(y, 2.0), retain_graph=True)
    y.backward(torch.full_like(y, 3.0))
    debugger.stop()
    assert bench.read().data["Functional.relu.0.backward"]["input"][0]["Max"] == 3.0


def test_a_relative_dump_path_is_where_the_program_began(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(tmp_path)
    debugger = bench.open(dump_path="dump")
    debugger.start()
    monkeypatch.chdir(away)
    F.relu(X)
    debugger.stop()
    debugger.step()
    assert bench.read().names() == ["Functional.relu.0.forward"]
    assert list(away.iterdir()) == []


def test_files_are_private(bench: Any) -> None:
    debugger = bench.open("mix", "tensor")
    model = Mlp()
    debugger.start(model=model)
    model(torch.ones(1, 4))
    debugger.stop()
    debugger.step()
    paths = [bench.root, *bench.root.rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert {modes[path] for path in paths if path.is_dir()} == {0o700}
    assert {modes[path] for path in paths if path.is_file()} == {0o600}
    assert any(path.suffix == ".pt" for path in paths)


def test_a_rank_looks_at_no_folder_of_the_others(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ranks began before: thousands of them share one file system."""
    others = [bench.root / "step0" / f"rank{number}" for number in range(1, 300)]
    for folder in others:
        folder.mkdir(parents=True)
        (folder / "dump.json").write_text('{"data": {}}')
    looked_at: list[str] = []
    for name in ("stat", "lstat", "open", "scandir", "listdir"):
        original = getattr(os, name)

        def look(path: Any = ".", *args: Any, original: Any = original, **options: Any) -> Any:
            looked_at.append(str(path))
            return original(path, *args, **options)

        monkeypatch.setattr(os, name, look)
    debugger = bench.open()
    debugger.start()
    F.relu(X)
    debugger.stop()
    debugger.step()
    monkeypatch.undo()
    assert [path for path in looked_at if any(path.startswith(str(folder)) for folder in others)] == []
    assert len(looked_at) < 100  # a folder of its own, and its few files


def test_no_journal_is_left_after_a_step(bench: Any) -> None:
    debugger = bench.open()
    debugger.start()
    F.relu(X)
    debugger.stop()
    debugger.step()
    files = sorted(path.name for path in bench.read().folder.iterdir())
    assert files == ["construct.json", "dump.json", "source.json", "stack.json"]


def test_a_construction_that_fails_leaves_nothing_behind(bench: Any) -> None:
    with pytest.raises(MsprobeException):
        bench.open(level="L7")
    debugger = bench.open()
    debugger.start()
    F.relu(X)
    debugger.stop()
    assert bench.read().names() == ["Functional.relu.0.forward"]


@pytest.mark.parametrize("name", ["start", "stop", "step"])
def test_without_a_debugger_the_class_says_what_to_do(bench: Any, name: str) -> None:
    bench.close()
    with pytest.raises(MsprobeException, match=r"instance is not created: call PrecisionDebugger\(...\) first"):
        getattr(PrecisionDebugger, name)()


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_model_is_needed_for_modules(bench: Any, level: str) -> None:
    debugger = bench.open(level)
    with pytest.raises(MsprobeException, match=rf"level {level} needs the model: call start\(model=...\)") as caught:
        debugger.start()
    assert caught.value.code == 0


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("net", "got str"),
        (torch.ones(1), "got Tensor"),
        ([Mlp(), 3], "got int at position 1"),
        ({"a": 3}, "got int"),
    ],
)
def test_a_model_of_the_wrong_type_is_named(bench: Any, model: Any, said: str) -> None:
    with pytest.raises(MsprobeException, match=f"expected a torch.nn.Module.*{said}"):
        bench.open("L0").start(model=model)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"rank_id": -1}, "rank_id must be greater than or equal to 0, got -1"),
        ({"rank_id": "0"}, "rank_id must be an integer, got '0'"),
        ({"rank_id": True}, "rank_id must be an integer, got True"),
        ({"token_range": [1, 3]}, "token_range"),
        ({"scheduled_tokens": {"a": "1"}}, "scheduled_tokens"),
    ],
)
def test_bad_arguments_of_start(bench: Any, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(MsprobeException, match=said) as caught:
        bench.open().start(**arguments)
    assert caught.value.code == 0
    assert not bench.root.exists()


@pytest.mark.parametrize("step", [-1, "1", 1.0, None, False])
def test_bad_init_step(bench: Any, step: Any) -> None:
    with pytest.raises(MsprobeException, match="step must be"):
        bench.open().set_init_step(step)


UNSUPPORTED = [
    ({"level": "L2", "task": "tensor", "section": {"list": ["linear"]}}, "list"),
    ({"task": "exception_dump"}, "task"),
    ({"task": "diff_check"}, "bench_path"),
]


@pytest.mark.parametrize(("asked", "field"), UNSUPPORTED, ids=[field for _, field in UNSUPPORTED])
def test_what_is_not_available_is_refused_before_training(bench: Any, asked: dict[str, Any], field: str) -> None:
    with pytest.raises(MsprobeException, match=field) as caught:
        bench.open(**asked)
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize("task", ["acc_check", "run_ut"])
def test_the_task_of_a_command_collects_nothing_and_says_so(
    task: str, bench: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    debugger = bench.open(task=task)
    debugger.start()
    torch.exp(torch.ones(2))
    debugger.stop()
    debugger.step()
    assert list(tmp_path.rglob("dump.json")) == []
    assert "task acc_check: start() collects nothing; it is for msprobe acc_check -api_info" in caplog.text


def test_names_follow_what_the_latest_start_was_given(bench: Any) -> None:
    from torch import nn

    first, second = (nn.Sequential(nn.Linear(2, 2)) for _ in range(2))
    debugger = bench.open("L0")
    stages: list[Any] = [first, second, [first, second], nn.ModuleDict({"inner": first}), first]
    for model in stages:
        debugger.start(model)
        for part in (first, second):
            part(torch.ones(1, 2))
        debugger.stop()
        debugger.step()
    forward = [bench.read(step).names("forward.0") for step in range(5)]
    assert forward[0] == ["Module.0.Linear.forward.0"]  # the second is not known yet
    assert forward[2] == ["Module.0.0.Linear.forward.0", "Module.1.0.Linear.forward.0"]
    assert forward[3][0] == "Module.inner.0.Linear.forward.0"
    assert forward[4][0] == "Module.0.Linear.forward.0"


def test_arguments_of_other_versions_are_told_once_and_ignored(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    debugger = bench.open()
    for _ in range(2):
        debugger.start(unheard_of=1, modle=None)
        debugger.stop()
        debugger.step(unheard_of=1)
    out = capsys.readouterr().out
    assert out.count("start: the argument unheard_of is unknown and ignored\n") == 1
    assert out.count("start: the argument modle is unknown and ignored; did you mean model?\n") == 1
    assert out.count("step: the argument unheard_of is unknown and ignored") == 1
