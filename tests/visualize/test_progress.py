"""Long work says on a terminal how far it is, and nothing elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compare.dumps import call, tensor, write

ONE = {"Functional.relu.0.forward": call([tensor()], [tensor(0.5)])}


def drawn(terminal: bool, *arguments: object) -> bytes:
    """What ``graph_visualize`` shows on its standard error, a terminal or a pipe."""
    pytest.importorskip("rich", reason="the bar comes with the extra `report`")
    command = [sys.executable, "-m", "msprobe", "graph_visualize", *map(str, arguments)]
    reader, writer = os.openpty() if terminal else os.pipe()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, env=environment) as process:
        os.close(writer)
        shown = b""
        while True:
            try:
                chunk = os.read(reader, 4096)
            except OSError:  # how a terminal says that its other end is closed
                break
            if not chunk:
                break
            shown += chunk
        os.close(reader)
        assert process.stdout is not None
        assert b"Graph: " in process.stdout.read()
    assert process.returncode == 0
    return shown


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_a_bar_on_a_terminal_only(terminal: bool, tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"dump/step0/rank{rank}", ONE, dict.fromkeys(ONE))
    shown = drawn(terminal, "-tp", tmp_path / "dump", "-o", tmp_path / "out")
    assert (b"step 0 rank 2" in shown) is terminal


@pytest.mark.slow
def test_one_large_pair_moves_the_bar(tmp_path: Path) -> None:
    data = {f"Functional.relu.{number}.forward": ONE["Functional.relu.0.forward"] for number in range(20_000)}
    dump = write(tmp_path / "rank0", data, dict.fromkeys(data))
    shown = drawn(True, "-tp", dump, "-gp", dump, "-o", tmp_path / "out").decode()
    for stage, share in (("comparing", "20%"), ("writing", "60%")):
        assert any(f"step 0 rank 0, {stage}" in line and share in line for line in shown.splitlines()), shown[-2000:]
