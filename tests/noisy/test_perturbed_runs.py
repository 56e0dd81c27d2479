"""``msprobe noise --perturb``: what one unit round-off does to a program is normal, and a fault is still found."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from msprobe.cli.main import run
from msprobe.jobs.compare import CompareResult, compare
from tests import forked
from tests.rules.tree import ROOT

PROGRAM = ROOT / "tests" / "noisy" / "ill_conditioned.py"
VARIANTS = ("golden", "two passes", "unbiased")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each variant, and what rounding does to the golden one."""
    root = tmp_path_factory.mktemp("perturbed")
    for variant in VARIANTS:
        assert forked.run([str(PROGRAM), variant, str(root / variant)]).returncode == 0
    words = shlex.join([forked.python(), str(PROGRAM), "golden", str(root / "unused")])
    assert run(["noise", str(root / "golden"), "--perturb", words, "-o", str(root / "noise.json")]) == 0
    assert not (root / "unused").exists(), "the perturbed run goes elsewhere"
    return root


def compared(folder: Path, variant: str, **options: object) -> CompareResult:
    output = folder / f"result of {variant} {len(options)}"
    return compare(folder / variant, folder / "golden", output=output, **options)


def test_rounding_alone_is_no_divergence(folder: Path) -> None:
    assert compared(folder, "two passes").verdict == "diverged", "nothing tells how much rounding moves these values"
    assert compared(folder, "two passes", noise=folder / "noise.json").verdict == "same"


def test_a_fault_is_named_where_it_is_made(folder: Path) -> None:
    result = compared(folder, "unbiased", noise=folder / "noise.json")
    assert result.verdict == "diverged"
    assert result.summary.first_divergence is not None and result.summary.first_divergence.module == "1.Scale"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program x", "there is no program 'no-such-program'"),
        ("python 'x", "is no command: No closing quotation"),
        (f"{sys.executable} -c 'raise SystemExit(3)'", "ended with status 3; it must run as it did for RUNS"),
        (f"{sys.executable} -c 'pass'", "recorded nothing; it must make a PrecisionDebugger, or begin with msprobe"),
    ],
)
def test_a_wrong_command_is_one_line(
    command: str, message: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["noise", str(folder / "golden"), "--perturb", command, "-o", str(folder / "other.json")]) != 0
    error = capfd.readouterr().err
    assert message in error and len([line for line in error.splitlines() if "noise: run 1 of 3" not in line]) == 1
