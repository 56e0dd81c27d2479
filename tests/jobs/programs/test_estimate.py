"""``msprobe doctor --estimate``: a real program runs for six steps, nothing stays, faults are one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.config import load_config
from msprobe.jobs.programs.estimate import RankCosts, _totals
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = """
import pathlib
import torch
from torch import nn

{before}
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range({steps}):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    pathlib.Path("made").write_text(str(number + 1))
"""
CONFIG = {"dump_path": "./dump", "level": "mix", "step": ["0-9"]}


def doctor(
    folder: Path, *options: str, config: object = CONFIG, steps: int = 50, before: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "train.py").write_text(PROGRAM.format(steps=steps, before=before))
    command = [sys.executable, "-m", "msprobe", "doctor", "config.json", "--estimate", *options, "--", "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=_environment())


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_the_costs_of_each_rank_and_of_a_training(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--steps", "1000", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (rank,) = result["ranks"]
    assert rank["bare_step_s"] > 0 and rank["recorded_step_s"] > rank["bare_step_s"]
    assert rank["step_records"] > 10 and rank["step_bytes"] > 5_000
    assert result["total"]["recorded_steps"] == 10
    assert result["total"]["disk_bytes"] == 10 * rank["step_bytes"]
    assert (tmp_path / "made").read_text() == "6"  # the program ended where its seventh step began
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "made", "train.py"]


@pytest.mark.matrix("wide")
def test_steps_in_memory_cost_memory(tmp_path: Path) -> None:
    config = {**CONFIG, "step": [], "statistics": {"ring": {"steps": 3}}}
    done = doctor(tmp_path, "--json", "-", config=config)
    total = json.loads(done.stdout)["total"]
    assert total["disk_bytes"] == 0 and total["memory_bytes"] == 4 * json.loads(done.stdout)["ranks"][0]["step_bytes"]


@pytest.mark.parametrize(
    ("budgets", "recorded", "by"),
    [
        ({}, 100, None),
        ({"time_budget": 4.4}, 5, "time_budget"),
        ({"disk_budget": 2_500}, 3, "disk_budget"),
        ({"time_budget": 4.4, "disk_budget": 2_500}, 3, "disk_budget"),
        ({"time_budget": "1h", "disk_budget": "1GB"}, 100, None),
    ],
)
def test_budgets_end_collection_in_the_estimate(
    tmp_path: Path, budgets: dict[str, Any], recorded: int, by: str | None
) -> None:
    costs = RankCosts(
        rank=None,
        bare_step_s=0.75,
        recorded_step_s=1.0,
        first_step_s=1.0,
        added_step_s=0.25,
        step_bytes=1000,
        step_records=3,
    )
    total = _totals(load_config({"dump_path": str(tmp_path), **budgets}), [costs], 100, 1)
    assert (total.recorded_steps, total.ended_by) == (recorded, by)
    assert total.ends_at_step == (None if by is None else recorded - 1)


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize(
    ("steps", "before", "said"),
    [
        (
            50,
            "raise ValueError('odd')",
            "ended with status 1 after 0 steps, and 6 are needed; it said: ValueError: odd",
        ),
        (3, "", "the program ended after 3 steps, and 6 are needed"),
        (
            50,
            "from msprobe.pytorch import PrecisionDebugger\nPrecisionDebugger(dump_path='./own')",
            "the script makes a PrecisionDebugger of its own",
        ),
    ],
)
def test_programs_that_cannot_be_measured(tmp_path: Path, steps: int, before: str, said: str) -> None:
    done = doctor(tmp_path, steps=steps, before=before)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line


def test_options_without_estimate_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "msprobe", "doctor", "config.json", "--steps", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=_environment())
    assert done.returncode == 2 and "belong to --estimate" in done.stderr
