"""A database that is not finished leaves nothing behind, whatever ended it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, tensor, write

RELU = "Functional.relu.0.forward"
DATA = call([tensor()], [tensor(0.5)])


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = {f"Functional.relu.{number}.forward": DATA for number in range(20_000)}
    return write(tmp_path_factory.mktemp("big") / "rank0", data, dict.fromkeys(data))


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("golden", [False, True], ids=["build", "compare"])
@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        pytest.param(signal.SIGINT, 130, "interrupted", id="INT"),
        pytest.param(signal.SIGTERM, 143, "ended by SIGTERM", id="TERM"),
        pytest.param(signal.SIGHUP, 129, "ended by SIGHUP", id="HUP"),
    ],
)
def test_an_ended_run_leaves_nothing(
    big: Path, tmp_path: Path, number: signal.Signals, status: int, message: str, golden: bool
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "msprobe", "graph_visualize", "-tp", str(big), "-o", str(out)]
    command += ["-gp", str(big)] if golden else []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list(out.glob(".*.tmp")):
        assert process.poll() is None
        time.sleep(0.0005)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == status
    assert f"msprobe: error: {message}" in told.splitlines()
    assert "Traceback" not in told
    assert list(out.iterdir()) == []


def test_a_killed_run_leaves_no_database_and_the_next_one_tidies_up(big: Path, tmp_path: Path) -> None:
    out, good = tmp_path / "out", write(tmp_path / "good/rank0", {RELU: DATA}, {RELU: None})
    command = [sys.executable, "-m", "msprobe", "graph_visualize", "-tp", str(big), "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(out.glob(".*.tmp")):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [path for path in out.iterdir() if not path.name.startswith(".")] == []
    path = visualize(Request(target=good, output=out))
    assert list(out.iterdir()) == [path]
