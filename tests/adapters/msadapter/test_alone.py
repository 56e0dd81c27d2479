"""The tests that need a process of their own, because a stand-in takes the name ``torch`` there: one run for all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.tree import ROOT

pytestmark = pytest.mark.mindspore

HERE = Path(__file__).parent
WHAT = [HERE / "inside_recording.py", HERE / "inside_monitor.py", ROOT / "tests" / "contracts"]
OPTIONS = ["--backends=msadapter", "-q", "-p", "no:cacheprovider"]


@pytest.mark.matrix("wide")
def test_the_adapter_over_the_stand_in() -> None:
    command = [sys.executable, "-m", "pytest", *map(str, WHAT), *OPTIONS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
    passed = next(line for line in reversed(result.stdout.splitlines()) if " passed" in line)
    assert int(passed.split(" passed")[0].split()[-1]) >= 150  # a sample of the contracts
