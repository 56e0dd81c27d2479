"""The supported versions of PyTorch and MindSpore record what the newest one does, and leave trainings as they are.

Run by the matrix ``versions``: environments are built for it, of up to 7 GB each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import msprobe
from msprobe.core.distribution import TESTED, parsed
from tests.matrices import matrix_params
from tests.versions.environments import CURRENT, CannotInstallError, environment, run

HERE = Path(__file__).parent
VERSIONS = {"torch": ("2.5.1", "2.9.1", "2.13.0"), "mindspore": ("2.7.0", "2.8.0", "2.9.0", "2.10.0")}
"""The oldest, one in the middle and the newest; the newest is that of the tests themselves."""
CASES = [
    pytest.param((package, number), id=f"{package}-{number}")
    for package, all_of in VERSIONS.items()
    for number in all_of
]
WITHOUT_GRADIENTS = {"2.7.0", "2.8.0"}
"""Versions of MindSpore that do not show where gradients leave a call: a warning says so, and compare finds none."""
KINDS = [f"{task}_{level}" for task in ("statistics", "tensor") for level in ("L0", "L1", "mix")]
UNMODIFIED = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def record(python: Path | str, package: str, folder: Path) -> None:
    """Run the program of a framework; it fails where recording changes the training."""
    done = run(python, str(HERE / f"{package}_program.py"), str(folder), folder=folder.parent)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module", params=matrix_params("versions", CASES, sample=()))
def version(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Path]]:
    """Yield a package, a version of it, and the Python that has it."""
    package, number = request.param
    if number == VERSIONS[package][-1]:
        yield package, number, Path(CURRENT)
        return
    try:
        with environment(f"{package}=={number}", tmp_path_factory.mktemp("environments")) as python:
            yield package, number, python
    except CannotInstallError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_a_training_is_recorded_as_by_the_newest_version(version: tuple[str, str, Path], tmp_path: Path) -> None:
    package, number, python = version
    for name, program in ((number, python), ("newest", CURRENT)):
        if not (tmp_path / name).exists():
            record(program, package, tmp_path / name)
    compiled = ["compiled"] if package == "torch" else []
    for kind in [*KINDS, *compiled]:
        result = msprobe.compare(tmp_path / number / kind, tmp_path / "newest" / kind, output=tmp_path / "compared")
        divergence = result.summary.first_divergence
        if number in WITHOUT_GRADIENTS:
            assert divergence is not None, kind
            assert "no gradient in the target (null)" in divergence.reason, (kind, divergence)
        else:
            assert result.verdict == "same", (kind, divergence)


@pytest.mark.slow
def test_an_unmodified_program_is_collected_from(version: tuple[str, str, Path], tmp_path: Path) -> None:
    package, _, python = version
    if package != "torch":
        pytest.skip("msprobe run collects from programs of PyTorch")
    (tmp_path / "train.py").write_text(UNMODIFIED)
    (tmp_path / "config.json").write_text('{"dump_path": "dump", "level": "mix"}')
    done = run(python, "-m", "msprobe", "run", "-c", "config.json", "train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step1"], done.stderr
    assert list(tmp_path.glob("dump/step1/*/dump.json"))


@pytest.mark.slow
def test_the_installation_is_right(version: tuple[str, str, Path], tmp_path: Path) -> None:
    package, number, python = version
    done = run(python, "-m", "msprobe", "doctor", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"\n{package}: {number}" in done.stdout


def test_the_versions_are_those_that_are_promised() -> None:
    oldest, newest = parsed(VERSIONS["torch"][0])[:2], parsed(VERSIONS["torch"][-1])[:2]
    assert (oldest, newest) == TESTED["torch"][1:]
    assert parsed(VERSIONS["mindspore"][-1])[:2] == TESTED["mindspore"].newest
