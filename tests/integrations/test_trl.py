"""TRL: a real GRPO training with callbacks; rollouts are compared token by token."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from msprobe.cli.main import run
from msprobe.saved_values.job import compare_saved
from tests import forked
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def train(folder: Path, seed: int) -> Path:
    folder.mkdir()
    words = [forked.python(), "-m", "tests.integrations.train_with_trl", str(folder), str(seed)]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.matrix("wide")
def test_rollouts_of_two_trainings(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    first, again, other = (train(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    same = compare_saved(again / "rollout", first / "rollout", tmp_path / "same", "completion_mask")
    assert (same.verdict, same.incomplete) == ("same", [])
    assert "completion_ids: 4 sequences, 0 differ" in same.lines
    differing = compare_saved(other / "rollout", first / "rollout", tmp_path / "other", "completion_mask")
    assert differing.verdict == "diverged"
    assert run(["compare", "-tp", str(again / "dump"), "-gp", str(first / "dump"), "-o", str(tmp_path / "o")]) == 0
    assert [folder.name for folder in sorted((first / "dump").iterdir())] == ["step0", "step1"]
