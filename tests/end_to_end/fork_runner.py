"""Runs many scripts, each in a process of its own, for the price of one import of the framework.

The runner is started as a script with the scripts to run as arguments, or reads them from its input, one a line: a
JSON list of the script and its arguments. It imports torch once and forks for each of them, so every script has its
own process, working directory, singletons and exit handlers, as it would have when started by hand. What a script
prints goes to ``{script}.log`` beside it; its exit status is printed by the runner.
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


class Runner:
    """Runs scripts as they are asked for. Use it in a ``with`` block."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, script: Path, *arguments: str) -> int:
        """The exit status of the script, run in its own folder."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(script), *arguments]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def log_of(script: Path) -> str:
    """What the script printed, both streams together."""
    return script.with_name(script.name + ".log").read_text(encoding="utf-8")


def _run_forked(script: Path, *arguments: str) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        status = _become(script, *arguments)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # taking the interpreter apart costs a second that no script needs


def _become(script: Path, *arguments: str) -> int:
    os.chdir(script.parent)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    with open(script.name + ".log", "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script), *arguments]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:  # noqa: BLE001  (whatever ends a script ends it, not the runner)
        traceback.print_exc()
        return 1
    return 0


def _main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    if sys.argv[1:]:
        print(json.dumps([(name, _run_forked(Path(name))) for name in sys.argv[1:]]))
        return
    for line in sys.stdin:
        script, *arguments = json.loads(line)
        print(_run_forked(Path(script), *arguments), flush=True)


if __name__ == "__main__":
    _main()
