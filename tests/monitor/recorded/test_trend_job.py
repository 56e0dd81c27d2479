"""Files of monitors into a trend database: several ranks, again and again, whatever the files hold."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from msprobe.cli.main import run
from msprobe.core.errors import NotComparableError, ReadError
from msprobe.monitor.recorded.trend_job import DATABASE, write_monitor_trend
from msprobe.visualize.trend_view.runs import Range, Runs
from msprobe.visualize.trend_view.store import TrendStore
from tests.monitor.recorded.runs import SECOND, line, rank_folder, values, write_alerts, write_csv


def test_a_second_call_adds_only_what_is_new(tmp_path: Path) -> None:
    out, db = tmp_path / "out", tmp_path / "db"
    first = write_csv(rank_folder(out, 0), "actv_0-9.csv", [line("a.input", 0, 1.0)])
    write_csv(rank_folder(out, 1), "actv_0-9.csv", [line("a.input", 0, 10.0)])
    assert write_monitor_trend(out, db).added == 2
    with first.open("a") as file:
        file.write(line("a.input", 1, 2.0) + "\n" + line("b.input", 1, 3.0) + "\n" + "0,a.inp")
    write_csv(rank_folder(out, 0), "actv_10-19.csv", [line("a.input", 10, 4.0)])
    trend = write_monitor_trend(out, db)
    assert (trend.added, trend.rows, trend.steps, trend.ranks) == (3, 5, 3, 2)
    found = values(trend.path)
    assert found[0, 1, "b.input", 0, "actv"] == 3.0 and found[0, 10, "a.input", 0, "actv"] == 4.0
    with first.open("a") as file:  # the rest of the line that was being written
        file.write("ut,2,0,5.0,5.0,[4],torch.float32\n")
    assert write_monitor_trend(out, db).added == 1
    assert values(trend.path)[0, 2, "a.input", 0, "actv"] == 5.0
    assert write_monitor_trend(out, db).added == 0


def test_added_steps_are_in_the_tiles(tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = write_csv(rank_folder(out, 0), "actv_0-999.csv", [line("a.input", step, step) for step in range(300)])
    trend = write_monitor_trend(out, tmp_path)
    with path.open("a") as file:
        file.writelines(line("a.input", step, step) + "\n" for step in range(300, 600))
    write_monitor_trend(out, tmp_path)
    store = TrendStore(trend.path)
    runs = Runs(store)
    import numpy as np

    part = Range(np.arange(600), np.arange(1), np.arange(1))
    assert runs.cells("target", "actv", "norm", part)[0, :, 0].tolist() == list(range(600))
    blocks = sqlite3.connect(trend.path).execute("SELECT step_block FROM msprobe_tiled ORDER BY 1").fetchall()
    assert blocks == [(0,), (1,), (2,)]


def test_the_newer_run_of_a_rank_counts_where_steps_repeat(tmp_path: Path) -> None:
    old, new = rank_folder(tmp_path, 0, "Nov26_06-00-00"), rank_folder(tmp_path, 0, "Nov26_07-00-00")
    write_csv(new, "actv_0-9.csv", [line("a.input", 1, 20.0)])
    write_csv(old, "actv_0-9.csv", [line("a.input", 0, 1.0), line("a.input", 1, 2.0)])
    os.utime(old, (1, 1))
    trend = write_monitor_trend(tmp_path, tmp_path / "db")
    assert [value for _, value in sorted(values(trend.path).items())] == [1.0, 20.0]
    assert "rank 0 has 2 folders" in trend.notes[0]


def test_nan_is_kept_and_a_later_value_replaces_it(tmp_path: Path) -> None:
    run_folder = rank_folder(tmp_path, 0)
    lines = [line("a.input", 0, "nan"), line("a.input", 1, "-inf"), line("b.input", 0, "nan", shape="nan")]
    write_csv(run_folder, "actv_0-9.csv", [*lines, line("c.input", 0, "nan", shape='"[0, 4]"')])
    trend = write_monitor_trend(tmp_path, tmp_path / "db")
    query = "SELECT step, target_name, kind FROM msprobe_nonfinite JOIN monitoring_targets USING (target_id) ORDER BY 1"
    assert set(sqlite3.connect(trend.path).execute(query)) == {(0, "a.input", "nan"), (1, "a.input", "-inf")}
    assert values(trend.path)[0, 1, "a.input", 0, "actv"] == -1000000001.0
    write_csv(rank_folder(tmp_path, 0, "Nov26_09-00-00"), "actv_0-9.csv", [line("a.input", 0, 7.0)])
    write_monitor_trend(tmp_path, tmp_path / "db")
    assert set(sqlite3.connect(trend.path).execute(query)) == {(1, "a.input", "-inf")}


def test_a_new_statistic_is_a_new_column(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path, 0)
    write_csv(folder, "actv_0-0.csv", [line("a.input", 0, 1.0)])
    write_monitor_trend(tmp_path, tmp_path / "db")
    title = "vpp_stage,name,step,norm,zeros,shape,dtype"
    write_csv(folder, "grad_reduced_0-0.csv", ["0,a.weight,0,2.0,0.5,[4],torch.float32"], title)
    trend = write_monitor_trend(tmp_path, tmp_path / "db")
    assert values(trend.path, "zeros")[0, 0, "a.weight", 0, "grad_reduced"] == 0.5
    stats = sqlite3.connect(trend.path).execute("SELECT actv, grad_reduced FROM global_stats").fetchall()
    assert stats == [("norm,max", "norm,zeros")]


def test_files_of_the_second_version(tmp_path: Path) -> None:
    write_csv(tmp_path / "rank_3", "module_step0-0.csv", ["0,0,fc1.input.0,forward,1.5,0.0"], SECOND)
    title = "vpp_stage,step,module_name,scope,micro_step,norm"
    write_csv(tmp_path / "rank_3", "weight_grad_step0-0.csv", ["0,0,fc1.weight,reduced,1,2.5"], title)
    found = values(write_monitor_trend(tmp_path, tmp_path / "db").path)
    assert found == {(3, 0, "fc1.input.0", 0, "actv"): 1.5, (3, 0, "fc1.weight", 1, "grad_reduced"): 2.5}


def test_more_micro_steps_than_before_number_the_steps_anew(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path, 0)
    write_csv(folder, "actv_0-0.csv", [line("a.input", 0, 1.0), line("a.input", 1, 2.0)])
    assert {key[1] for key in values(write_monitor_trend(tmp_path, tmp_path / "db", divided=True).path)} == {0, 1}
    write_csv(folder, "actv_grad_0-0.csv", [line("a.input", step, 1.0, micro) for step in (0, 1) for micro in (0, 1)])
    found = values(write_monitor_trend(tmp_path, tmp_path / "db", divided=True).path)
    assert found[0, 2, "a.input", 0, "actv"] == 2.0 and found[0, 3, "a.input", 0, "actv_grad"] == 1.0


def test_alerts_are_marked_at_their_place(tmp_path: Path) -> None:
    write_csv(rank_folder(tmp_path, 1), "actv_0-9.csv", [line("fc1.input", step, 1.0, 1) for step in range(3)])
    tag = "0:fc1.input:0/rank1/actv"
    text = f"Rule spike reports anomaly signal in ('{tag}', 'norm') at step 2, current value 9.0, history mean 1.0."
    write_alerts(tmp_path, 1, [{"tag_name": tag, "step": 2, "micro_step": 1, "message": text}])
    connection = sqlite3.connect(write_monitor_trend(tmp_path, tmp_path / "db").path)
    query = """SELECT rank, step, target_name, statistic, reason FROM msprobe_alerts
        JOIN monitoring_targets USING (target_id)"""
    assert connection.execute(query).fetchall() == [(1, 2, "fc1.input", "norm", "spike: norm is 9.0, usually 1.0")]


@pytest.mark.parametrize(
    ("lines", "title", "message"),
    [
        pytest.param(["0,a.input,0"], None, "3 cells where there are 8 columns", id="short-line"),
        pytest.param([line("a.input", 0, "many")], None, "could not convert", id="no-number"),
        pytest.param(["0,0,a,sideways,1,1"], SECOND, "unknown scope", id="scope"),
        pytest.param(["1"], "norm", "no columns vpp_stage", id="other-file"),
        pytest.param(
            ['0,a,0,0,1,1,"[4]",x'],
            'vpp_stage,name,step,micro_step,"no rm; DROP",max,shape,dtype',
            "cannot be the name",
            id="hostile-title",
        ),
    ],
)
def test_what_is_no_file_of_a_monitor_is_one_line(
    lines: list[str], title: str | None, message: str, tmp_path: Path
) -> None:
    name = "module_step0-0.csv" if title == SECOND else "actv_0-0.csv"
    write_csv(rank_folder(tmp_path, 0), name, lines, *([title] if title else []))
    with pytest.raises(ReadError, match=message):
        write_monitor_trend(tmp_path, tmp_path / "db")


def test_a_folder_without_files_of_a_monitor(tmp_path: Path) -> None:
    with pytest.raises(NotComparableError, match="no files of a monitor"):
        write_monitor_trend(tmp_path, tmp_path / "db")
    with pytest.raises(ReadError, match="no such folder"):
        write_monitor_trend(tmp_path / "absent", tmp_path / "db")


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    write_csv(rank_folder(tmp_path, 0), "actv_0-0.csv", [line("a.input", 0, 1.0)])
    (tmp_path / DATABASE).write_text("a diary")
    from msprobe.core.errors import MsprobeException

    with pytest.raises(MsprobeException, match="cannot be written"):
        write_monitor_trend(tmp_path, tmp_path)
    assert (tmp_path / DATABASE).read_text() == "a diary"


def test_the_command_finds_out_what_lies_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(rank_folder(tmp_path / "out", 0), "actv_0-0.csv", [line("a.input", 0, 1.0)])
    for kind in ("auto", "monitor"):
        assert run(["data2db", "--db", str(tmp_path), "--data", str(tmp_path / "out"), "--format", kind]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == f"Result: {tmp_path / DATABASE}"
    assert run(["data2db", "--db", str(tmp_path), "--data", str(tmp_path / "db"), "--format", "monitor"]) == 2
