"""Runs many scripts, each in a process of its own, for the price of one import of the framework.

The runner is started as a script with the scripts to run as arguments. It imports torch once and forks for each of
them, so every script has its own process, working directory, singletons and exit handlers, as it would have when
started by hand. What a script prints goes to ``{script}.log`` beside it; its exit status is printed by the runner.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

PRELOADED = (
    "torch",
    "torch._dynamo",  # by the optimizers
    "torch._inductor.config",  # by use_deterministic_algorithms
    "torch.utils.checkpoint",
    "msprobe.adapters.pytorch.debugger",
)
"""What the scripts would load themselves, a second each."""

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


def _run_forked(script: Path) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        status = _become(script)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # taking the interpreter apart costs a second that no script needs


def _become(script: Path) -> int:
    os.chdir(script.parent)
    with open(script.name + ".log", "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:  # noqa: BLE001  (whatever ends a script ends it, not the runner)
        traceback.print_exc()
        return 1
    return 0


def _main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    print(json.dumps([(name, _run_forked(Path(name))) for name in sys.argv[1:]]))


if __name__ == "__main__":
    _main()
