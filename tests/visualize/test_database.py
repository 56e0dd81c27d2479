"""A database that is not finished leaves nothing behind, whatever ended it."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from msprobe.visualize.database import Database
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, tensor, write

RELU = "Functional.relu.0.forward"
DATA = call([tensor()], [tensor(0.5)])


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = {f"Functional.relu.{number}.forward": DATA for number in range(20_000)}
    return write(tmp_path_factory.mktemp("big") / "rank0", data, dict.fromkeys(data))


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


def test_an_interrupt_while_a_database_is_begun_leaves_nothing(tmp_path: Path) -> None:
    """Whichever of the first calls it comes in."""
    for calls in itertools.count(1):
        begun = Countdown(calls)
        sys.setprofile(begun)
        try:
            with Database(tmp_path / "out", "build"):
                sys.setprofile(None)
                break
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert not list((tmp_path / "out").glob(".*")), f"after {calls} calls, in {begun.last}"
    assert calls > 5


class Countdown:
    """A profile function that interrupts when the n-th built-in returns, which is where Python looks for signals."""

    def __init__(self, calls: int) -> None:
        self.left, self.last = calls, ""

    def __call__(self, frame: FrameType, event: str, what: Any) -> None:
        if event != "c_return" or "database" not in frame.f_code.co_filename:
            return
        self.left -= 1
        if not self.left:
            self.last = str(what)
            raise KeyboardInterrupt


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
