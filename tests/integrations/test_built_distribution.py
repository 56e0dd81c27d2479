"""What pip gets when it builds this project: the tag of a wheel, and an editable installation that nothing hides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.rules.tree import ROOT

pytest.importorskip("setuptools", minversion="77", reason="the project is built without network here")
pytestmark = pytest.mark.slow
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")


def built(folder: Path, hook: str, **variables: str) -> tuple[str, list[str], Path]:
    """Return name, files and path of what a hook of the build backend makes."""
    source = folder / "source"
    shutil.copytree(ROOT / "msprobe", source / "msprobe", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    program = f"import setuptools.build_meta as backend; backend.{hook}({str(folder)!r})"
    environment = {**os.environ, **variables}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return wheel.name, archive.namelist(), wheel


@pytest.mark.parametrize("variables", [{"CC": "/bin/false"}, {"MSPROBE_NATIVE": "0"}], ids=["no-compiler", "unwanted"])
def test_a_wheel_without_the_kernel_has_the_tag_of_pure_python(tmp_path: Path, variables: dict[str, str]) -> None:
    name, files, _ = built(tmp_path, "build_wheel", **variables)
    assert name.endswith("-py3-none-any.whl")
    assert "msprobe/__init__.py" in files and not [file for file in files if file.endswith((".so", ".pyd"))]


def test_a_folder_of_the_same_name_does_not_hide_an_editable_installation(tmp_path: Path) -> None:
    _, files, wheel = built(tmp_path, "build_editable", MSPROBE_NATIVE="0")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (tmp_path / "work" / "msprobe" / "msprobe").mkdir(parents=True)  # a clone: its package lies one level deeper
    program = f"import site; site.addsitedir({str(site)!r}); import msprobe; print(msprobe.__file__)"
    command = [sys.executable, "-S", "-c", program]
    run = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True, check=False)
    assert run.stdout == f"{tmp_path / 'source' / 'msprobe' / '__init__.py'}\n", (files, run.stderr)
