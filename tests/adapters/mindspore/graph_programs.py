"""The programs in ``graph_jobs``: each runs in a process of its own, since MindSpore reads its settings once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests import forked
from tests.rules.tree import ROOT

JOBS = Path(__file__).with_name("graph_jobs")

RACE = b"Failed to get device contexts for funcgraph"
"""An error that MindSpore 2.10 raises in one of some hundred compilations of a loop under ``jit``, also alone."""


def run(job: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of ``graph_jobs``; one that fails fails the test with what it wrote."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(3):
        done = forked.run([JOBS / job, *arguments], env=environment, cwd=cwd, timeout=300, preloaded=forked.MINDSPORE)
        if RACE not in done.stderr:
            break
    out, errors = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, out + errors
    return subprocess.CompletedProcess(done.args, done.returncode, out, errors)
