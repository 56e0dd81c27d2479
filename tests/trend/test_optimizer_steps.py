"""Without --micro_step the steps of the database are those of the optimizer."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from msprobe.cli.main import run
from msprobe.trend.job import DATABASE, write_trend
from msprobe.trend.optimizer_steps import steps_in_header
from tests.trend.records import two_passes, write_dump

STEP = {"optimizer": 0, "groups": []}
_NET = """SELECT step, micro_step FROM trend_data JOIN monitoring_targets USING (target_id)
    WHERE target_name = 'Module.Net.input.0' AND rank = 0 ORDER BY 1, 2"""


def record(root: Path, step: int, passes: int, optimizers: list[Any] | None = None) -> None:
    calls = [[number] for number in range(passes)]
    document = write_dump(root, (step, "rank0"), *two_passes(calls)) / "dump.json"
    if optimizers is not None:
        content = json.loads(document.read_text())
        data = content.pop("data")
        document.write_text(json.dumps({**content, "optimizers": optimizers, "data": data}, indent=1))


def steps(root: Path, folder: Path, **options: Any) -> list[tuple[int, int]]:
    return sqlite3.connect(write_trend(root, folder, **options).path).execute(_NET).fetchall()


def test_a_step_of_the_dump_is_one_step_of_the_optimizer(tmp_path: Path) -> None:
    for step in (0, 10):
        record(tmp_path / "run", step, 2)
    assert steps(tmp_path / "run", tmp_path) == [(0, 0), (0, 1), (10, 0), (10, 1)]
    assert steps(tmp_path / "run", tmp_path, divided=True) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_several_optimizer_steps_in_one_step_of_the_dump(tmp_path: Path) -> None:
    record(tmp_path / "run", 0, 4, [STEP, STEP])
    record(tmp_path / "run", 1, 2, [STEP, STEP])
    assert steps(tmp_path / "run", tmp_path) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)]
    assert write_trend(tmp_path / "run", tmp_path).steps == 4


def test_gradients_that_accumulate_over_steps_of_the_dump(tmp_path: Path) -> None:
    for step in range(4):
        record(tmp_path / "run", step, 1, [STEP] if step % 2 else None)
    assert steps(tmp_path / "run", tmp_path) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert steps(tmp_path / "run", tmp_path, divided=False) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_two_optimizers_make_one_step_together() -> None:
    assert steps_in_header({"optimizers": [STEP, {"optimizer": 1, "groups": []}]}) == 1


@pytest.mark.parametrize("damage", [3, [3], [{}], {"optimizer": 0}, [{"optimizer": []}, {"optimizer": {}}]])
def test_a_damaged_header_is_one_step(damage: Any) -> None:
    assert steps_in_header({"optimizers": damage}) == 1


def test_the_command_counts_optimizer_steps_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in range(3):
        record(tmp_path / "run", step, 2)
    words = ["data2db", "--db", str(tmp_path), "--data", str(tmp_path / "run")]
    assert run(words) == 0 and "over 3 steps" in capsys.readouterr().out
    assert run([*words, "--micro_step", "true"]) == 0 and "over 6 steps" in capsys.readouterr().out
    assert (tmp_path / DATABASE).is_file()
