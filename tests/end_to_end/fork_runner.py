"""Run scripts as a user would start them: each in its own folder and process, its output in ``{script}.log``.

The processes come from ``tests.forked``, so that each script does not import its framework again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests import forked

ROOT = Path(__file__).resolve().parents[2]


def run_scripts(scripts: Sequence[Path], timeout: float = 240, preloaded: str = forked.TORCH) -> dict[Path, int]:
    """Run each script in its own folder, one after the other, and return their exit statuses.

    ``timeout`` is in seconds for each script; subprocess.TimeoutExpired is raised after it.
    """
    return {script: run_script(script, timeout=timeout, preloaded=preloaded) for script in scripts}


def run_script(script: Path, *arguments: str, timeout: float = 240, preloaded: str = forked.TORCH) -> int:
    """Run one script in its own folder and return its exit status."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = forked.start([script, *arguments], env=environment, cwd=script.parent, preloaded=preloaded)
    output, _ = process.communicate(timeout)
    script.with_name(script.name + ".log").write_bytes(output)
    assert process.returncode is not None
    return process.returncode


def log_of(script: Path) -> str:
    """Return what the script printed, both streams together."""
    return script.with_name(script.name + ".log").read_text(encoding="utf-8")
