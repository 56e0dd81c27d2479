"""Long work says on a terminal how far it is, and nothing elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compare.dumps import call, tensor, write

ONE = {"Functional.relu.0.forward": call([tensor()], [tensor(0.5)])}


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_a_bar_on_a_terminal_only(terminal: bool, tmp_path: Path) -> None:
    pytest.importorskip("rich", reason="the bar comes with the extra `report`")
    for rank in range(3):
        write(tmp_path / f"dump/step0/rank{rank}", ONE, dict.fromkeys(ONE))
    command = [sys.executable, "-m", "msprobe", "graph_visualize", "-tp", str(tmp_path / "dump")]
    command += ["-o", str(tmp_path / "out")]
    reader, writer = os.openpty() if terminal else os.pipe()
    process = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=writer, check=False, env={**os.environ, "TERM": "xterm"}
    )
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
    assert process.returncode == 0
    assert b"Graph: " in process.stdout
    assert (b"step 0 rank 2" in shown) is terminal
