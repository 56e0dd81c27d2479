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


def test_json(pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*pair, "-o", str(tmp_path / "r.json"), "--json", "-"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["verdict"], summary["counts"]) == ("diverged", {"equal": 1, "different": 1})
    assert [one["name"] for one in summary["parameters"]] == ["b"]
    assert run([*pair, "-o", str(tmp_path / "s.json"), "--json", str(tmp_path / "summary.json")]) == 0
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert "Verdict: DIVERGED" in capsys.readouterr().out


@pytest.mark.parametrize(("same", "status"), [(True, 0), (False, 1)], ids=["same", "diverged"])
def test_fail_on(same: bool, status: int, pair: list[str], tmp_path: Path) -> None:
    words = [*pair[:3], pair[2] if same else pair[3]]
    assert run([*words, "-o", str(tmp_path / "r.json"), "--fail-on", "diverged"]) == status


def test_a_result_is_not_replaced(pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text("kept")
    assert run([*pair, "-o", str(tmp_path / "r.json")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "r.json").read_text() == "kept"


PACKS = ROOT / "tests/golden_setup/packs"


def test_set_ups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["config_check", "-c", str(PACKS / "base.zip"), str(PACKS / "permuted.zip"), "-o", str(tmp_path / "out")]
    assert run([*words, "--html", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "weights error" in out and "weights: step 0 rank 0 a.weight" in out
    assert (tmp_path / "out/result.xlsx").is_file() and (tmp_path / "page.html").is_file()
    assert run([*words, "--fail-on", "error", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["level"] == "error"


def test_levels_that_fail(tmp_path: Path) -> None:
    same = ["config_check", "-c", str(PACKS / "base.zip"), str(PACKS / "base.zip"), "-o", str(tmp_path / "out")]
    assert [run([*same, "--fail-on", level]) for level in ("never", "error", "warning")] == [0, 0, 0]


def test_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.sh").write_text("torchrun train.py --lr 1 --seed 2")
    assert run(["config_check", "-d", str(tmp_path / "train.sh"), "-o", str(tmp_path / "a.zip")]) == 0
    assert "train.sh: 2 settings" in capsys.readouterr().out
    assert run(["config_check", "-d", "-o", str(tmp_path / "a.tar")]) == 2
    assert "give a name that ends in .zip" in capsys.readouterr().err


def test_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rate in (("a", 1), ("b", 2)):
        text = f"---- arguments ----\n  lr ....... {rate}\n---- end of arguments ----\n"
        (tmp_path / f"{name}.log").write_text(text)
    words = ["config_check", "-sc", str(tmp_path / "a.log"), str(tmp_path / "b.log"), "-o", str(tmp_path / "out")]
    assert run(words) == 0
    assert "lr: 1 against 2" in capsys.readouterr().out
    assert run([*words, "--fail-on", "error"]) == 1
    assert run(["config_check", "-vc", *words[2:]]) == 2
    assert "no settings in it" in capsys.readouterr().err
    (tmp_path / "v.log").write_text("{'actor_rollout_ref': {'n': 1}, 'data': {'shuffle': False}}")
    assert run(["config_check", "-vv", str(tmp_path / "v.log"), "-o", str(tmp_path / "verified")]) == 0
    assert "data/shuffle" not in capsys.readouterr().out


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["-d", "-c", "a", "b"], ["-vv"], ["-c", "a", "b", "more"], ["-c", "a", "b", "--html", "x"]):
        assert run(["config_check", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
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
