"""Runs many scripts, each in a process of its own, for the price of one import of the framework.

The runner is started as a script with the scripts to run as arguments. It imports torch once and forks for each of
them, so every script has its own process, working directory, singletons and exit handlers, as it would have when
started by hand. What a script prints goes to ``{script}.log`` beside it; its exit status is printed by the runner.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_scripts(scripts: Sequence[Path], timeout: float = 240) -> dict[Path, int]:
    """Run each script in its own folder, one after the other, and return their exit statuses."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), *map(str, scripts)],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=timeout,
        check=True,
    )
    return {Path(script): status for script, status in json.loads(done.stdout)}


def log_of(script: Path) -> str:
    """What the script printed, both streams together."""
    return script.with_name(script.name + ".log").read_text(encoding="utf-8")


def _run_forked(script: Path) -> int | None:
    """The exit status in the parent; None in the child, which becomes the script."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.chdir(script.parent)
    with open(script.name + ".log", "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script)]
    runpy.run_path(str(script), run_name="__main__")
    return None


def _main() -> None:
    import torch

    torch.set_num_threads(1)
    statuses = []
    for name in sys.argv[1:]:
        status = _run_forked(Path(name))
        if status is None:
            return
        statuses.append((name, status))
    print(json.dumps(statuses))


if __name__ == "__main__":
    _main()
