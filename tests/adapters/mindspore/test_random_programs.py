"""Random programs (``random_programs.py``) run with the tool as they run without it: every bit of what they make."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked
from tests.adapters.mindspore.random_programs import ATTEMPTS
from tests.adapters.mindspore.watched_programs import GROUP
from tests.matrices import FUZZ, matrix_params
from tests.rules.tree import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("first", matrix_params(FUZZ, range(0, 12 * GROUP, GROUP), sample=["0"]))
def test_programs_run_as_without_the_tool(first: int, tmp_path: Path, record_calls: Callable[[int], object]) -> None:
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        done = forked.run(
            ["-m", "tests.adapters.mindspore.watched_programs", first, folder / "dump"],
            cwd=folder,  # a graph that cannot be compiled is written there
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=1200,
            preloaded=forked.MINDSPORE,
        )
        if done.returncode >= 0:  # no signal has ended it
            break
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    record_calls(result["calls"])
    assert result["found"] is None, result["found"]
