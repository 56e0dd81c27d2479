"""``msprobe doctor`` without a configuration says what is installed and what is wrong with it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import msprobe
from msprobe.cli.main import run
from msprobe.core.distribution import EXTRAS, NAME, TESTED
from msprobe.setup_check.installation import installation_facts
from tests.rules.tree import ROOT


def test_one_line_for_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    status = run(["doctor"])
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["python"].startswith(platform.python_version())
    assert lines["msprobe"].startswith(f"{msprobe.__version__} in ")
    assert lines["numpy"] == importlib.metadata.version("numpy")
    assert {*TESTED, "kernel", *(f"extra {name}" for name in EXTRAS if name not in TESTED)} <= lines.keys()
    assert status == any("WRONG" in line for line in lines.values())


@pytest.mark.parametrize("words", [["--world", "2"], ["--estimate"], ["-i", "dump"]])
def test_options_need_a_configuration(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *words]) == 2
    assert "msprobe doctor CONFIG" in capsys.readouterr().err


def test_a_missing_kernel_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSPROBE_NATIVE", "0")
    (fact,) = [fact for fact in installation_facts() if fact.name == "kernel"]
    assert fact.right and "missing" in fact.text and "MSPROBE_NATIVE=0" in fact.text


def test_an_old_framework_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.0" if name in TESTED else whole(name))
    wrong = {fact.name: fact.text for fact in installation_facts() if fact.name in TESTED and not fact.right}
    assert wrong.keys() == TESTED.keys()
    assert all("2.1.0 is not supported" in text for text in wrong.values())


def test_a_folder_that_hides_the_installed_package_is_named(tmp_path: Path) -> None:
    try:
        importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{NAME} is not installed here")
    shutil.copytree(ROOT / "msprobe", tmp_path / "msprobe", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "msprobe", "doctor"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert f"msprobe: WRONG: {msprobe.__version__} in {tmp_path}" in result.stdout


def test_every_command_warns_of_a_second_tree(tmp_path: Path) -> None:
    record = tmp_path / "mindstudio_probe-26.2.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("msprobe/__init__.py,,\n")
    command = [sys.executable, "-m", "msprobe", "--version"]
    environment = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == f"msprobe {msprobe.__version__}\n"
    assert result.stderr.startswith("msprobe: warning: mindstudio-probe 26.2.0 is installed in ")
    assert len(result.stderr.splitlines()) == 1
