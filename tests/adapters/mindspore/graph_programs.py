"""The programs in ``graph_jobs``: each runs in a process of its own, since MindSpore reads its settings once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests import forked
from tests.rules.tree import ROOT

JOBS = Path(__file__).with_name("graph_jobs")


def run(job: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of ``graph_jobs``; one that fails fails the test with what it wrote."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = forked.run([JOBS / job, *arguments], env=environment, cwd=cwd, timeout=300, preloaded=forked.MINDSPORE)
    out, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, out + errors
    return subprocess.CompletedProcess(done.args, done.returncode, out, errors)
