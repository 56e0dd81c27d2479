"""What changes around a running collection: its folder, working directory and clock; and names that would escape."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.crash.child import QUIET

pytestmark = [pytest.mark.torch, pytest.mark.slow]

START = """
import os, shutil, sys, time
import torch
from msprobe.pytorch import PrecisionDebugger
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
def work(number):
    for _ in range(number):
        model(torch.ones(1, 2)).tanh().sum().backward()
"""
END = """
debugger.stop()
debugger.step()
print("finished")
"""


def run(body: str, folder: Path, **config: Any) -> list[str]:
    """The lines said by a training of its own, in ``folder``; it must come to its end without a trace."""
    given = {"dump_path": "dump", "level": "mix", "risk_level": "ALL", **config}
    text = f"{START}\ndebugger = PrecisionDebugger({given!r})\n{body}\n{END}"
    done = forked.run(["-c", text], cwd=folder, env=QUIET)
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert said.endswith("finished\n")
    assert done.stderr == b""
    return said.splitlines()


def data_of(folder: Path, step: int = 0) -> dict[str, Any]:
    (document,) = folder.glob(f"step{step}/*/dump.json")
    data: dict[str, Any] = json.loads(document.read_bytes())["data"]
    return data


def errors(lines: list[str]) -> list[str]:
    return [line for line in lines if "[ERROR]" in line]


def test_the_folder_is_removed_while_running(tmp_path: Path) -> None:
    body = """
debugger.start(model); work(3); time.sleep(0.2)
shutil.rmtree("dump")
work(3); time.sleep(0.2)
debugger.stop(); debugger.step()
debugger.start(model); work(3)
"""
    lines = run(body, tmp_path)
    assert len(errors(lines)) == 1
    assert "nothing more is recorded in this step, training goes on" in errors(lines)[0]
    assert "The folder was removed while it was in use" in errors(lines)[0]
    assert "Tensor.tanh.2.forward" in data_of(tmp_path / "dump", 1)


def test_tensor_files_lose_their_folder(tmp_path: Path) -> None:
    body = """
debugger.start(model); work(1)
import glob
shutil.rmtree(glob.glob("dump/step0/*/dump_tensor_data")[0])
work(2)
"""
    lines = run(body, tmp_path, task="tensor")
    assert len(errors(lines)) == 1
    assert "statistics go on without them" in errors(lines)[0]
    assert data_of(tmp_path / "dump")["Tensor.tanh.2.forward"]["output"][0]["shape"] == [1, 2]


def test_the_working_directory_changes(tmp_path: Path) -> None:
    body = """
os.mkdir("elsewhere")
debugger.start(model); work(1)
os.chdir("elsewhere")
work(1)
debugger.stop(); debugger.step()
debugger.start(model); work(1)
"""
    lines = run(body, tmp_path, task="tensor")
    assert errors(lines) == []
    assert "Tensor.tanh.1.forward" in data_of(tmp_path / "dump", 0)
    assert "Tensor.tanh.0.forward" in data_of(tmp_path / "dump", 1)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_clock_goes_backwards(tmp_path: Path) -> None:
    """The flusher goes on: what is older than a moment is in the journal although the time of day is not."""
    body = """
debugger.start(model); work(3)
now = time.time
time.time = lambda: now() - 10**8
time.time_ns = lambda: int((now() - 10**8) * 10**9)
work(3); time.sleep(0.5)
import glob
from msprobe.core.store.journal import fold
assert "Tensor.tanh.5.forward" in fold(glob.glob("dump/step0/*/dump.journal")[0]).data
"""
    assert errors(run(body, tmp_path)) == []
    assert "Tensor.tanh.5.forward" in data_of(tmp_path / "dump")


def test_the_dump_path_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "dump").symlink_to(tmp_path / "real")
    assert errors(run("debugger.start(model); work(1)", tmp_path)) == []
    assert "Tensor.tanh.0.forward" in data_of(tmp_path / "real")


def test_a_link_in_the_place_of_a_document_is_not_followed(tmp_path: Path) -> None:
    """The documents replace a link that lies in their place; what it points to stays as it is."""
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    folder = tmp_path / "dump" / "step0" / "rank0"
    folder.mkdir(parents=True)
    for name in ("dump.json", "stack.json", "dump.journal", "dump_error_info.log"):
        (folder / name).symlink_to(victim)
    run("debugger.start(model, rank_id=0); work(1)", tmp_path)
    assert victim.read_text(encoding="utf-8") == "mine"
    assert not (folder / "dump.json").is_symlink()


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("../../escaped\0", id="up"),
        pytest.param("/absolute" + "x" * 500, id="long"),
        pytest.param("a/b", id="slash", marks=pytest.mark.slow),
        pytest.param("ü\ud800", id="surrogate", marks=pytest.mark.slow),
        pytest.param("...", id="dots", marks=pytest.mark.slow),
    ],
)
def test_no_name_leaves_the_folder(name: str, tmp_path: Path) -> None:
    body = f"""
debugger.start(model, rank_id=0)
debugger.save(torch.ones(2), {name!r})
from types import SimpleNamespace
owner = SimpleNamespace(call=lambda it: it)
debugger.register_custom_api(owner, "call", {name!r})
owner.call(torch.ones(2))
from msprobe.pytorch import module_dump
module_dump(model, {name!r}); model(torch.ones(1, 2))
"""
    lines = run(body, tmp_path, task="tensor")
    assert errors(lines) == []
    inside = tmp_path / "dump" / "step0" / "rank0"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {inside, inside / "dump_tensor_data"}
    assert len([path for path in files if path.suffix == ".pt"]) >= 4
    json.loads((inside / "dump.json").read_bytes())
    json.loads((inside / "debug.json").read_bytes())


def test_what_is_written_is_private_and_holds_plain_tensors(tmp_path: Path) -> None:
    import torch

    run("os.umask(0)\ndebugger.start(model); work(1); debugger.save(torch.ones(1), 'x')", tmp_path, task="tensor")
    paths = list((tmp_path / "dump").rglob("*"))
    modes = {(path.is_dir(), stat.S_IMODE(os.stat(path).st_mode)) for path in [*paths, tmp_path / "dump"]}
    assert modes == {(True, 0o700), (False, 0o600)}
    saved = [torch.load(path, weights_only=True) for path in paths if path.suffix == ".pt"]
    assert {type(value) for value in saved} == {torch.Tensor}


@pytest.mark.parametrize(
    ("mode", "modes"),
    [("640", {(True, 0o750), (False, 0o640)}), ("777", {(True, 0o700), (False, 0o600)})],
    ids=["group", "refused"],
)
def test_others_may_read_when_they_are_let(mode: str, modes: set[Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(QUIET, "MSPROBE_FILE_MODE", mode)
    lines = run("os.umask(0)\ndebugger.start(model); work(1)", tmp_path, task="tensor")
    paths = [tmp_path / "dump", *(tmp_path / "dump").rglob("*")]
    assert {(path.is_dir(), stat.S_IMODE(os.stat(path).st_mode)) for path in paths} == modes
    assert any("MSPROBE_FILE_MODE=777 is not used" in line for line in lines) is (mode == "777")


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_folders_may_be_named_in_any_language(task: str, tmp_path: Path) -> None:
    name = "läuft gut, 数据 (2) & мир; $HOME 'x' 🙂"
    lines = run("debugger.start(model, rank_id=0); work(2)", tmp_path, task=task, dump_path=name)
    assert errors(lines) == []
    assert list(data_of(tmp_path / name))
    command = [sys.executable, "-m", "msprobe", "compare", "-tp", name, "-gp", name, "-o", f"out {name}"]
    done = subprocess.run(command, cwd=tmp_path, env=QUIET, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert list((tmp_path / f"out {name}").iterdir())


def test_links_below_the_dump_lead_nowhere(tmp_path: Path) -> None:
    """The path of the dump may be a link of the user's; one that was put below it is not followed."""
    body = """
for name in ("dump", "steps", "tensors"):
    os.makedirs("elsewhere/" + name)
open("elsewhere/tensors/Tensor.tanh.0.forward.output.0.pt", "w").close()
os.symlink("elsewhere/dump", "dump")
os.makedirs("dump/step0/rank0")
os.symlink(os.path.abspath("elsewhere/tensors"), "dump/step0/rank0/dump_tensor_data")
os.symlink(os.path.abspath("elsewhere/steps"), "dump/step1")
for _ in range(2):
    debugger.start(model, rank_id=0); work(1); debugger.stop(); debugger.step()
"""
    lines = run(body, tmp_path, task="tensor")
    assert errors(lines) == []
    assert sum("was a link to" in line for line in lines) == 2
    elsewhere = tmp_path / "elsewhere"
    assert list((elsewhere / "steps").iterdir()) == []
    assert [(path.name, path.stat().st_size) for path in (elsewhere / "tensors").iterdir()] == [
        ("Tensor.tanh.0.forward.output.0.pt", 0)
    ]
    for step in (0, 1):
        tensors = elsewhere / "dump" / f"step{step}" / "rank0" / "dump_tensor_data"
        assert (tensors / "Tensor.tanh.0.forward.output.0.pt").stat().st_size > 0
