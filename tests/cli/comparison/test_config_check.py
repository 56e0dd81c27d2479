"""``msprobe config_check``."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from msprobe.cli.main import run
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """The words ``-c FIRST SECOND``: two files that differ in one parameter."""
    first = {"a": torch.ones(3), "b": torch.arange(4.0)}
    torch.save(first, tmp_path / "first.pt")
    save_file({**first, "b": first["b"] + 1}, tmp_path / "second.safetensors")
    return ["config_check", "-c", str(tmp_path / "first.pt"), str(tmp_path / "second.safetensors")]


def test_result(pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "result.json"
    assert run([*pair, "-o", str(output)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Verdict: DIVERGED (2 parameters: 1 equal, 1 different)" in lines
    assert lines[-1] == f"Result: {output}"
    document = json.loads(output.read_text())
    assert document["a"] == {"l2": 0.0, "cos": 1.0, "numel": 3, "shape": [3]}
    assert document["b"]["l2"] == 2.0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert os.listdir(output.parent) == ["result.json"]


@pytest.mark.parametrize(("same", "status"), [(True, 0), (False, 1)], ids=["same", "diverged"])
def test_fail_on(same: bool, status: int, pair: list[str], tmp_path: Path) -> None:
    words = [*pair[:3], pair[2] if same else pair[3]]
    assert run([*words, "-o", str(tmp_path / "r.json"), "--fail-on", "diverged"]) == status


def test_a_result_is_not_replaced(pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text("kept")
    assert run([*pair, "-o", str(tmp_path / "r.json")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "r.json").read_text() == "kept"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-c", "a.zip", "b.zip"], id="zip"),
        pytest.param(["-d"], id="collect"),
        pytest.param(["-d", "train.sh", "-o", "x.zip"], id="collect-files"),
        pytest.param(["-vc", "npu.log", "bench.log"], id="verl"),
    ],
)
def test_what_is_not_there_yet_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config_check", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "in this release" in err


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config_check"]) == 2
    assert "give two checkpoints" in capsys.readouterr().err
    assert run(["config_check", "-c", "one"]) == 2


def test_no_name_in_common(pair: list[str], tmp_path: Path) -> None:
    torch.save({"other": torch.ones(1)}, tmp_path / "other.pt")
    assert run([*pair[:3], str(tmp_path / "other.pt"), "-o", str(tmp_path / "r.json")]) == 3
    assert not (tmp_path / "r.json").exists()


def _without_torch(words: list[str]) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.modules['torch'] = None; from msprobe.cli.main import run; sys.exit(run({words!r}))"
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)


def test_safetensors_need_no_torch_and_torch_files_say_so(pair: list[str], tmp_path: Path) -> None:
    done = _without_torch([*pair[:2], pair[3], pair[3], "-o", str(tmp_path / "r.json")])
    assert done.returncode == 0 and "Verdict: SAME" in done.stdout, done.stderr
    done = _without_torch([*pair, "-o", str(tmp_path / "s.json")])
    assert done.returncode == 2
    assert "first.pt: cannot be read without torch" in done.stderr and done.stderr.count("\n") == 1
