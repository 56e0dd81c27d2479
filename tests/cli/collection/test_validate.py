"""msprobe validate: every problem and warning in the words of load_config, and a status to branch on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.cli.main import run
from msprobe.core.config import check_config
from msprobe.core.config.load import PACKAGED_DEFAULT


def written(folder: Path, raw: object) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    return str(path)


def test_a_good_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(PACKAGED_DEFAULT)]) == 0
    assert capsys.readouterr().out == f"{PACKAGED_DEFAULT}: can be used (0 problems, 0 warnings)\n"


def test_a_bad_file_prints_what_load_config_would_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"dump_path": "x", "level": "l0", "steps": [1], "statistics": {"list": 1}})
    assert run(["validate", path]) == 2
    report = check_config(path)
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        *(f"{path}: warning: {warning}" for warning in report.warnings),
        *(f"{path}: error: {problem}" for problem in report.problems),
        f"{path}: cannot be used (2 problems, 1 warning)",
    ]


def test_a_framework_adds_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"dump_path": "x", "task": "exception_dump"})
    assert run(["validate", path, "--framework", "mindspore"]) == 0
    assert run(["validate", path, "-f", "pytorch"]) == 2
    assert 'task: got "exception_dump"; pytorch collects statistics, tensor' in capsys.readouterr().out


def test_a_missing_golden_dump_is_a_warning_for_a_training_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"bench_path": str(tmp_path / "golden"), "summary_mode": "md5"}
    path = written(tmp_path, {"dump_path": "x", "task": "tensor", "tensor": section})
    assert run(["validate", path]) == 2
    assert "error: tensor.bench_path:" in capsys.readouterr().out
    assert run(["validate", path, "--elsewhere"]) == 0
    assert "warning: tensor.bench_path:" in capsys.readouterr().out


def test_without_a_framework_only_what_none_can_do_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", written(tmp_path, {"dump_path": "x", "task": "exception_dump"})]) == 0
    assert 'warning: not on pytorch: task: got "exception_dump"' in capsys.readouterr().out
    assert run(["validate", written(tmp_path, {"dump_path": "x", "task": "acc_check"})]) == 0
    assert "warning: task: acc_check: start() collects nothing; it is for msprobe acc_check" in capsys.readouterr().out


def test_a_mode_of_the_framework_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", written(tmp_path, {"dump_path": "x", "level": "mix"}), "-f", "mindspore"]) == 0
    assert 'warning: not on mindspore static O0/O1: level: got "mix"' in capsys.readouterr().out


def test_the_framework_may_stand_before_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, {"dump_path": "x", "task": "exception_dump"})
    assert run(["-f", "pytorch", "validate", path]) == 2
    assert run(["-f", "pytorch", "validate", path, "-f", "mindspore"]) == 0


def test_a_broken_file_tells_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"task": }')
    assert run(["validate", str(path)]) == 2
    assert "error: not valid JSON at line 1, column 10" in capsys.readouterr().out


def test_a_terminal_that_cannot_show_a_name_gets_escapes(tmp_path: Path) -> None:
    path = written(tmp_path, {"dump_path": "x", "数据": 1, "a\nb": 1})
    result = subprocess.run(
        [sys.executable, "-m", "msprobe", "validate", path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "warning: \\u6570\\u636e: unknown key" in result.stdout
    assert "warning: 'a\\nb': unknown key" in result.stdout


def test_a_missing_file_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "missing.json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("msprobe: error: Illegal path: missing.json: there is no such config file")
    assert err.count("\n") == 1
