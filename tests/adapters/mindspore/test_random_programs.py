"""Random programs (``random_programs.py``) run with the tool as they run without it: every bit of what they make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.mindspore.random_programs import ATTEMPTS
from tests.adapters.mindspore.watched_programs import GROUP
from tests.matrices import FUZZ, matrix_params
from tests.rules.tree import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", matrix_params(FUZZ, range(0, 6 * GROUP, GROUP), sample=["0"]))
def test_programs_run_as_without_the_tool(first: int, tmp_path: Path, record_calls: Callable[[int], object]) -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.adapters.mindspore.watched_programs", str(first)]
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        done = subprocess.run(
            [*command, str(folder / "dump")],
            cwd=folder,  # a graph that cannot be compiled is written there
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode >= 0:  # no signal has ended it
            break
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    record_calls(result["calls"])
    assert result["found"] is None, result["found"]
