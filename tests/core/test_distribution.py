"""The name that pip knows, the extras, and distributions that install files into the same package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from msprobe.core.distribution import (
    EXTRAS,
    NAME,
    TESTED,
    distributions_beside,
    install_command,
    mixture,
    version_fault,
)
from tests.rules.tree import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ALIAS = (ROOT / "packaging/mindstudio-probe/pyproject.toml").read_text(encoding="utf-8")
FOREIGN = re.compile(
    r"""pip\S* install[^\n`#]*?[ '"`](msprobe(?![-\w./])[^ ]*)|\b(?:re)?install(?:s|ed|ing)? ['"`]?msprobe(?![-\w./])"""
    r"|\bmsprobe\[\w"
)
"""The distribution ``msprobe``, which belongs to another program, as something to install, or one of its extras."""


def installed(folder: Path, name: str, *files: str) -> None:
    """Write what pip leaves behind: a list of the files of a distribution."""
    (folder / f"{name}.dist-info").mkdir()
    (folder / f"{name}.dist-info" / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


def test_the_project_has_the_name() -> None:
    assert f'\nname = "{NAME}"\n' in PROJECT
    assert f'\ndependencies = ["{NAME}"]\n' in ALIAS


def test_the_extras_are_those_of_the_project() -> None:
    (table,) = re.findall(r"^\[project\.optional-dependencies\]\n(.*?)^\[", PROJECT, re.MULTILINE | re.DOTALL)
    extras = {name: set(re.findall(r'"([\w-]+)', line)) for name, line in re.findall(r"^(\w+) = (\[.+\])", table, re.M)}
    del extras["integrations"]
    extras["mindspore"].discard("numpy")
    assert {name: set(extra.packages.values()) for name, extra in EXTRAS.items()} == extras


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("run pip install msprobe", True),
        ("(pip install 'msprobe[dask]')", True),
        ('pip3 install -U "msprobe[torch]"', True),
        ("it cannot be loaded; install msprobe again", True),
        ("reinstall `msprobe` there", True),
        ("the extra `msprobe[onnx]`", True),
        ("where msprobe is installed", False),
        (install_command("dask"), False),
        (f"pip install {NAME}", False),
        ("pip install ./packaging/mindstudio-probe", False),
    ],
)
def test_the_name_of_the_other_program_is_seen(text: str, foreign: bool) -> None:
    assert (FOREIGN.search(text) is not None) == foreign


def test_no_message_and_no_page_asks_for_the_other_program() -> None:
    folders = ("msprobe", "docs", "examples", "benchmarks", "packaging", "scripts")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "setup.py", "pyproject.toml")]
    kinds = {".py", ".md", ".yaml", ".toml", ".j2", ".js", ""}
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.suffix in kinds}
    assert len(texts) > 700
    assert [f"{path}: {match[0]}" for path, text in texts.items() for match in FOREIGN.finditer(text)] == []


def test_another_distribution_with_files_of_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "mindstudio_probe-26.2.0", "../../../bin/msprobe", "msprobe/__init__.py")
    installed(tmp_path, "msprobe-0.1.4", "msprobe/scanner.py")
    installed(tmp_path, "msprobe_training-0.1.0", "msprobe/__init__.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), str(tmp_path), str(tmp_path)])
    beside = sorted(distributions_beside())
    assert [(one.name, one.version) for one in beside] == [("mindstudio-probe", "26.2.0"), ("msprobe", "0.1.4")]
    assert f"pip uninstall -y mindstudio-probe {NAME}" in mixture(beside[0])
    assert str(tmp_path) in mixture(beside[0])


def test_a_distribution_of_the_name_alone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "mindstudio_probe-26.2.0+msprobe", "mindstudio_probe-26.2.0+msprobe.dist-info/METADATA")
    (tmp_path / "msprobe-0.1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert distributions_beside() == []


@pytest.mark.parametrize("package", TESTED)
def test_an_older_framework_is_refused_and_a_newer_one_is_not(package: str) -> None:
    name, (major, minor), (newest, last) = TESTED[package]
    fault = version_fault(package, f"{major}.{minor - 1}.9+cpu")
    assert fault is not None and name in fault and f"{major}.{minor} to {newest}.{last}" in fault
    assert version_fault(package, f"{major}.{minor}.0") is None
    assert version_fault(package, f"{newest}.{last + 1}.0a0") is None
