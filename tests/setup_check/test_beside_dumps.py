"""A differing set-up is told beside the first divergence."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.cli.main import run
from msprobe.compare import compare
from msprobe.setup_check.beside_dumps import NAME, differences_beside
from msprobe.setup_check.document import SetupDocument
from msprobe.setup_check.pack import write_pack
from tests.compare.dumps import call, tensor, write


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two dumps that differ, each with its set-up."""
    for name, value, rate in (("bad", 9.0, 2), ("good", 1.0, 1)):
        write(tmp_path / name / "step0" / "rank0", {"Torch.abs.0.forward": call([tensor()], [tensor(value)])})
        write_pack(tmp_path / name / NAME, SetupDocument(hyperparameters={"a.sh": {"lr": rate}}))
    return tmp_path / "bad", tmp_path / "good"


def test_told(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "-tp", str(runs[0]), "-gp", str(runs[1]), "-o", str(runs[0] / "out")]) == 0
    out = capsys.readouterr().out
    assert "Set-up: error: hyperparameters: lr: 1 against 2" in out
    because = "the optimizer moves the parameters by other amounts"
    assert compare(*runs).summary.setup == [f"error: hyperparameters: lr: 1 against 2 ({because})"]


def test_not_told_where_nothing_diverged_or_a_set_up_is_missing(runs: tuple[Path, Path]) -> None:
    assert compare(runs[0], runs[0]).summary.setup == []
    (runs[1] / NAME).unlink()
    assert compare(*runs).summary.setup == []


def test_a_damaged_one_is_told(runs: tuple[Path, Path]) -> None:
    (runs[1] / NAME).write_bytes(b"x")
    (line,) = differences_beside(*runs)
    assert "not a readable zip file" in line
