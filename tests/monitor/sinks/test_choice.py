"""The key ``format``: the same rows in one appended file, in a trend database, in TensorBoard's event files."""

from __future__ import annotations

import logging
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from msprobe.monitor.alerts.alert import Alert
from msprobe.monitor.recorded.trend_job import write_monitor_trend
from msprobe.monitor.rows import Row
from msprobe.monitor.sinks.append_files import AppendFiles
from msprobe.monitor.sinks.choice import make_sink
from msprobe.monitor.sinks.csv_files import CsvFiles
from msprobe.monitor.sinks.trend_file import TrendFile
from msprobe.monitor.sources import ACTIVATION, GRADIENT_REDUCED, UPDATE
from msprobe.visualize.trend_view.store import TrendStore
from tests import forked
from tests.monitor.recorded.runs import rank_folder, values
from tests.rules.tree import ROOT

NAN, INF = float("nan"), float("inf")


def rows(step: int, value: float = 1.0) -> list[Row]:
    names = ("norm", "nans", "shape", "dtype")
    return [
        Row(ACTIVATION, 0, "fc1.input", step, 0, names, (value, 0, (4, 4), "torch.float32"), 0, False),
        Row(ACTIVATION, 0, "fc1.input", step, 1, names, (NAN, 2, (4, 4), "torch.float32"), 0, False),
        Row(GRADIENT_REDUCED, 1, "fc1.weight", step, None, ("norm", "shape"), (INF, (4,))),
        Row(GRADIENT_REDUCED, 1, "fc2.weight", step, None, ("norm", "shape"), (None, None)),
    ]


@pytest.mark.parametrize("kind", ["csv", "append", "trend"])
def test_every_kind_of_file_gives_the_same_trend(kind: str, tmp_path: Path) -> None:
    run = rank_folder(tmp_path, 2)
    sink = make_sink(kind, CsvFiles(run, 0, 1, 6), run, 2)
    for step in range(3):
        sink.write(step, rows(step, 0.5 + step))
    sink.close()
    trend = write_monitor_trend(tmp_path, tmp_path / "db")
    found = values(trend.path)
    assert found[2, 2, "fc1.input_0", 0, "actv"] == 2.5 and found[2, 1, "fc1.weight", 0, "grad_reduced"] == 1e9 + 1
    assert found[2, 0, "fc1.input_0", 1, "actv"] is None and found[2, 0, "fc2.weight", 0, "grad_reduced"] is None
    query = "SELECT count(*) FROM msprobe_nonfinite WHERE statistic = 'norm' AND kind = ?"
    counts = [sqlite3.connect(trend.path).execute(query, (one,)).fetchone()[0] for one in ("nan", "inf")]
    assert counts == [3, 3]
    assert len(found) == 12


def test_one_file_per_source_grows_and_rotates(tmp_path: Path) -> None:
    sink = AppendFiles(tmp_path / "run", most_bytes=400)
    for step in range(20):
        sink.write(step, rows(step))
    parts = sorted(path.name for path in (tmp_path / "run").glob("actv_part*.csv"))
    assert parts[0] == "actv_part0000.csv" and 2 < len(parts) < 20
    lines = [text for name in parts for text in (tmp_path / "run" / name).read_text().splitlines()[1:]]
    assert [int(text.split(",")[2]) for text in lines] == [step for step in range(20) for _ in range(2)]


def test_a_trend_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    run = rank_folder(tmp_path, 0)
    sink = TrendFile(run, 0)
    for step in range(5):
        sink.write(step, rows(step))
        store = TrendStore(run / "monitor_rank0.trend.db")
        assert store.steps.tolist() == list(range(step + 1))
    assert write_monitor_trend(tmp_path, tmp_path / "db").added == 20
    sink.write(5, rows(5))
    assert write_monitor_trend(tmp_path, tmp_path / "db").added == 4
    sink.close()


def test_alerts_come_into_the_trend(tmp_path: Path) -> None:
    run = rank_folder(tmp_path, 0)
    sink = TrendFile(run, 0)
    sink.write(0, rows(0))
    sink.write(1, rows(1))
    sink.mark([Alert("spike", rows(1)[0], "norm", 9.0, 1.0, "norm is 9.0, usually 1.0")])
    sink.close()
    assert [row[:3] for row in TrendStore(run / "monitor_rank0.trend.db").alerts] == [("actv", 0, 1)]


def test_a_killed_process_leaves_whole_steps(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.monitor.sinks.test_choice import rows, TrendFile\n"
        "sink = TrendFile(Path(sys.argv[1]), 0)\n"
        "for step in range(100000):\n sink.write(step, rows(step)); print(step, flush=True)"
    )
    command = [forked.python(), "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(30)]
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    last = max(int(text) for text in told if text.endswith("\n"))
    store = TrendStore(tmp_path / "monitor_rank0.trend.db")
    assert len(store.steps) >= last + 1
    counts = sqlite3.connect(store.path).execute("SELECT count(*) FROM trend_data GROUP BY step").fetchall()
    assert set(counts) == {(4,)}


def test_tensorboard_reads_the_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sink = make_sink("tensorboard", CsvFiles(tmp_path, 0, 1, 6), tmp_path / "run", 0)
    for step in range(3):
        sink.write(step, rows(step, 0.5 + step))
    sink.close()
    events = EventAccumulator(str(tmp_path / "run")).Reload()
    assert "grad_reduced/stage1/fc1.weight/norm" in events.Tags()["scalars"]
    assert [(one.step, one.value) for one in events.Scalars("actv/fc1.input_0/norm")] == [(0, 0.5), (1, 1.5), (2, 2.5)]


def test_an_unknown_format_writes_csv_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    csv = CsvFiles(tmp_path, 0, 1, 6)
    with caplog.at_level(logging.WARNING):
        assert make_sink("parquet", csv, tmp_path, 0) is csv
    assert '"parquet"' in caplog.text


def test_an_unwritable_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(OSError, match="cannot be written"):
        TrendFile(tmp_path / "run", 0).write(0, rows(0))


def test_sources_may_have_names_that_are_words_of_sql(tmp_path: Path) -> None:
    sink = TrendFile(tmp_path / "run", 0)
    sink.write(0, [])  # an update is known from the second step on
    sink.write(1, [Row(UPDATE, 0, "fc1.weight", 1, None, ("norm",), (2.0,))])
    sink.close()
    connection = sqlite3.connect(tmp_path / "run" / "monitor_rank0.trend.db")
    assert connection.execute("SELECT norm FROM trend_data").fetchall() == [(2.0,)]


def test_a_database_that_cannot_be_closed_is_an_error_that_the_session_knows(tmp_path: Path) -> None:
    sink = TrendFile(tmp_path / "run", 0)
    sink.write(0, rows(0))
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(OSError, match=r"monitor_rank0\.trend\.db: ") as caught:
        sink.close()
    assert " -o" not in str(caught.value)
