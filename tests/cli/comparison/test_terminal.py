"""What a real terminal gets beside plain text, and that a pipe does not get it."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compare.dumps import call, tensor, write

NAME = "Functional.relu.0.forward"


@pytest.fixture
def dumps(tmp_path: Path) -> list[str]:
    for rank, scale in ((0, 1.0), (1, 3.0)):
        write(tmp_path / f"t/step0/rank{rank}", {NAME: call([tensor()], [tensor(scale)])})
        write(tmp_path / f"g/step0/rank{rank}", {NAME: call([tensor()], [tensor()])})
    return ["compare", "-tp", str(tmp_path / "t"), "-gp", str(tmp_path / "g"), "-o", str(tmp_path / "o")]


def in_terminal(arguments: list[str]) -> tuple[int, str]:
    """Status and everything that a terminal of 100 columns shows."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "msprobe", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(), shown.decode()


def test_a_terminal_shows_progress_and_a_table_of_ranks(dumps: list[str]) -> None:
    pytest.importorskip("rich")
    status, shown = in_terminal(dumps)
    assert status == 0 and "2/2" in shown and "pairs" in shown
    lines = [line for line in shown.splitlines() if "rank" in line and "diverged" in line]
    assert len(lines) == 1 and NAME in lines[0]
    assert shown.index("rank1") < shown.index("rank0") and "Verdict: DIVERGED" in shown


def test_a_pipe_gets_plain_text(dumps: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "msprobe", *dumps], capture_output=True, text=True, check=True)
    assert done.stderr == "" and done.stdout.startswith("Verdict: DIVERGED") and "\x1b" not in done.stdout


def test_json_on_a_terminal_is_json_alone(dumps: list[str]) -> None:
    _, shown = in_terminal([*dumps, "--json", "-"])
    assert shown.lstrip().startswith("{") and "\x1b" not in shown
