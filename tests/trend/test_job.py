"""Dumps into a trend database."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.cli.main import run
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.jobs.executors.processes import ProcessExecutor
from msprobe.trend.further_tables import INFINITE, LARGEST, drawn
from msprobe.trend.job import DATABASE, Execution, write_trend
from tests.rules.tree import ROOT
from tests.trend.records import backward, forward, tensor, two_passes, write_dump

_ROWS = """SELECT rank, step, target_name, micro_step, metric_name, max FROM trend_data
    JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id) ORDER BY 1, 2, target_id, 5"""


def _rows(path: Path) -> list[tuple[Any, ...]]:
    return sqlite3.connect(path).execute(_ROWS).fetchall()


def _two_ranks(root: Path) -> Path:
    """Rank 0 makes two passes in its first step and one in the second, rank 1 one in each; a process without a rank."""
    write_dump(root, (0, "rank0"), *two_passes())
    write_dump(root, (0, "rank1"), *two_passes([(0, 1)]))
    for process in ("rank0", "rank1", "proc4711"):
        write_dump(root, (2, process), *two_passes([(0, 1)]))
    return root


def test_micro_steps_count_on_over_steps_and_the_longest_rank_counts(tmp_path: Path) -> None:
    trend = write_trend(_two_ranks(tmp_path / "run"), tmp_path, divided=True)
    rows = [row for row in _rows(trend.path) if row[2] == "Module.Net.input.0"]
    assert [row[:2] for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 2)]
    assert (trend.ranks, trend.steps, trend.notes) == (3, 3, [])
    stats = sqlite3.connect(trend.path).execute("SELECT max_rank, min_step, max_step FROM global_stats").fetchall()
    assert stats == [(2, 0, 2)]


def test_steps_of_the_dump_keep_their_numbers_and_calls_theirs(tmp_path: Path) -> None:
    trend = write_trend(_two_ranks(tmp_path / "run"), tmp_path, divided=False)
    first = [row[1:4] for row in _rows(trend.path) if row[0] == 0 and "linear.input" in row[2]]
    assert first == [(0, "Functional.linear.input.0", call) for call in (5, 7, 9)] + [
        (2, "Functional.linear.input.0", call) for call in (0, 1)
    ]
    assert trend.steps == 2


def test_directions_are_metrics_of_one_target(tmp_path: Path) -> None:
    data = {
        "Module.Net.forward.0": forward(1.0, parameters={"w": tensor(3.0)}),
        "Module.Net.forward.1": forward(5.0, is_recompute=True),
        "Module.Net.backward.0": backward(7.0),
        "Module.Net.parameters_grad": {"w": [tensor(9.0)]},
    }
    write_dump(tmp_path / "run", (0, "rank0"), data)
    rows = [row[2:] for row in _rows(write_trend(tmp_path / "run", tmp_path).path)]
    assert rows == [
        ("Module.Net.input.0", 0, "backward", 7.0),
        ("Module.Net.input.0", 0, "forward", 1.0),
        ("Module.Net.output.0", 0, "backward", 8.0),
        ("Module.Net.output.0", 0, "forward", 2.0),
        ("Module.Net.parameters.w", 0, "forward", 3.0),
        ("Module.Net.input.0", 1, "recompute", 5.0),
        ("Module.Net.output.0", 1, "recompute", 6.0),
        ("Module.Net.w", 0, "parameters_grad", 9.0),
    ]


def test_only_float_tensors_that_stand_directly_in_a_call_are_followed(tmp_path: Path) -> None:
    inputs = [
        tensor(0.0, dtype="torch.int64"),
        tensor(0.0, dtype="torch.float64"),
        [tensor(0.0)],
        {"type": "int", "value": 3},
        None,
        tensor(1.0, dtype="torch.bfloat16"),
        tensor(2.0, dtype="Float16", type="mindspore.Tensor"),
    ]
    body = {"input_args": inputs, "input_kwargs": {"k": tensor(0.0)}, "output": None}
    write_dump(tmp_path / "run", (0, "rank0"), {"Functional.f.0.forward": body, "no name": forward(0.0)})
    rows = _rows(write_trend(tmp_path / "run", tmp_path).path)
    assert [(row[2], row[5]) for row in rows] == [("Functional.f.input.5", 1.0), ("Functional.f.input.6", 2.0)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(math.inf, INFINITE, id="infinity"),
        pytest.param("-inf", -INFINITE, id="minus-infinity-as-text"),
        pytest.param(1e12, LARGEST, id="large"),
        pytest.param(-(10**400), -INFINITE, id="an-integer-beyond-floats"),
        pytest.param(math.nan, None, id="nan"),
        pytest.param(None, None, id="null"),
        pytest.param([1], None, id="no-number"),
    ],
)
def test_statistics_are_drawn_on_one_scale(value: Any, expected: float | None) -> None:
    assert drawn(value) == expected


@given(st.floats(allow_nan=False))
def test_a_drawn_number_keeps_its_sign_and_order(value: float) -> None:
    found = drawn(value)
    assert found is not None and abs(found) <= INFINITE
    assert found == value or (abs(found) >= LARGEST and math.copysign(1.0, found) == math.copysign(1.0, value))


def test_names_are_replaced(tmp_path: Path) -> None:
    write_dump(tmp_path / "run", (0, "rank0"), *two_passes([(0,)]))
    mapping = tmp_path / "names.json"
    mapping.write_text(json.dumps({"Lin": "Linear", "layer": "model.layers.3"}))
    rows = _rows(write_trend(tmp_path / "run", tmp_path, mapping).path)
    assert "Module.model.layers.3.Linear.input.0" in {row[2] for row in rows}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"a": 1}', "key 'a'", id="no-text"),
        pytest.param('{"": "a"}', "key ''", id="empty-key"),
        pytest.param("[]", "not a JSON object", id="no-object"),
        pytest.param("{", "not valid JSON", id="no-json"),
        pytest.param('{".forward": ""}', "which is no name of a call", id="spoils-a-name"),
        pytest.param(None, "cannot be read", id="missing"),
    ],
)
def test_a_wrong_mapping_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    write_dump(tmp_path / "run", (0, "rank0"), *two_passes())
    mapping = tmp_path / "names.json"
    if text is not None:
        mapping.write_text(text)
    with pytest.raises(ReadError, match=message):
        write_trend(tmp_path / "run", tmp_path, mapping)
    assert not (tmp_path / DATABASE).exists()


def test_values_of_one_name_are_told(tmp_path: Path) -> None:
    data = {"Module.N.parameters_grad": {"w": [tensor(1.0)]}, "Module.N.parameters_grad.0": {"w": [tensor(2.0)]}}
    write_dump(tmp_path / "run", (0, "rank0"), data)
    trend = write_trend(tmp_path / "run", tmp_path)
    assert [row[5] for row in _rows(trend.path)] == [1.0]
    assert trend.rows == 1 and trend.notes == ["1 values have the name of an earlier one and are left out"]


def test_reading_in_processes_gives_the_same_file(tmp_path: Path) -> None:
    root = _two_ranks(tmp_path / "run")
    alone = write_trend(root, tmp_path / "alone")
    shared = write_trend(root, tmp_path / "shared", execution=Execution(ProcessExecutor(2).run))
    assert alone.path.read_bytes() == shared.path.read_bytes()


@pytest.mark.parametrize("damage", ["not json", '{"task": "statistics"}'], ids=["no-json", "no-data"])
def test_an_unreadable_rank_leaves_the_old_file_alone(damage: str, tmp_path: Path) -> None:
    root = _two_ranks(tmp_path / "run")
    path = write_trend(root, tmp_path / "db").path
    before = path.read_bytes()
    (root / "step2" / "rank1" / "dump.json").write_text(damage)
    with pytest.raises(ReadError, match="step2/rank1"):
        write_trend(root, tmp_path / "db")
    assert path.read_bytes() == before and os.listdir(path.parent) == [DATABASE]


def test_a_dump_without_statistics_is_refused(tmp_path: Path) -> None:
    body = {"input_args": [{"type": "torch.Tensor", "dtype": "torch.int64", "shape": [1]}], "output": []}
    write_dump(tmp_path / "run", (0, "rank0"), {"Torch.f.0.forward": body})
    with pytest.raises(NotComparableError, match="no statistics"):
        write_trend(tmp_path / "run", tmp_path)
    assert not (tmp_path / DATABASE).exists()


def test_saved_values_and_two_modes_are_refused(tmp_path: Path) -> None:
    folder = write_dump(tmp_path / "saved", (0, "rank0"), {})
    (folder / "dump.json").rename(folder / "debug.json")
    with pytest.raises(ReadError, match="single saved values"):
        write_trend(tmp_path / "saved", tmp_path)
    write_dump(tmp_path / "modes" / "graph", (0, "rank0"), *two_passes())
    with pytest.raises(ReadError, match="graph"):
        write_trend(tmp_path / "modes", tmp_path)


def test_the_file_is_private(tmp_path: Path) -> None:
    path = write_trend(_two_ranks(tmp_path / "run"), tmp_path / "new" / "db").path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("")
    with pytest.raises(MsprobeException, match=r"cannot be written .*-o"):
        write_trend(_two_ranks(tmp_path / "run"), tmp_path / "db" / "below")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = _two_ranks(tmp_path / "run")
    words = ["data2db", "--db", str(tmp_path), "--data", str(root), "--process_num", "2", "--micro_step", "false"]
    assert run(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Result: {tmp_path / DATABASE}"
    assert run([*words, "--format", "monitor"]) == 3
    assert "no files of a monitor" in capsys.readouterr().err
    assert run(["data2db", "--db", str(tmp_path), "--data", str(tmp_path / "nothing")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


def test_no_framework_is_needed(tmp_path: Path) -> None:
    root = _two_ranks(tmp_path / "run")
    program = (
        f"import sys; from msprobe.cli.main import run; assert run(['data2db', '--db', {str(tmp_path)!r}, '--data', "
        f"{str(root)!r}]) == 0; assert not {{'torch', 'mindspore', 'pandas'}} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dumps_in_an_object_store(tmp_path: Path) -> None:
    upath = pytest.importorskip("upath")
    root = _two_ranks(tmp_path / "run")
    store = upath.UPath("memory://trend")
    for file in root.rglob("*.json"):
        target = store / file.relative_to(root).as_posix()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    found = write_trend("memory://trend", tmp_path / "remote")
    assert found.path.read_bytes() == write_trend(root, tmp_path / "local").path.read_bytes()
