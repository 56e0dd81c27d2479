"""Run a program again, with the parameters and inputs of its model moved by one unit round-off.

The program makes its debugger as ever. Variables of its environment (``core.config.perturbed_run``) say that this time
it moves values, and where its dump goes.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msprobe.core.config.perturbed_run import perturbing_environment
from msprobe.core.errors import InterfaceError
from msprobe.core.log import logger


@contextlib.contextmanager
def perturbed_runs(command: str, times: int) -> Iterator[list[Path]]:
    """Run ``command`` so many times, each time moved otherwise, and yield the folders of the dumps.

    The folders are removed at the end.

    Args:
        command: a program with its arguments, as a shell would read them; a .py file alone is run with this Python.
        times: how often it runs.

    Raises:
        InterfaceError: there is no such program, it fails, or it records nothing.
    """
    words = _words(command)
    root = Path(tempfile.mkdtemp(prefix="msprobe-perturbed-"))
    try:
        folders = [root / f"run{seed}" for seed in range(1, times + 1)]
        for seed, folder in enumerate(folders, 1):
            logger.info("noise: run %d of %d of %s", seed, times, command)
            _run(command, words, seed, folder)
        yield folders
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(command: str, words: Sequence[str], seed: int, folder: Path) -> None:
    status = subprocess.run(words, env=perturbing_environment(seed, str(folder)), check=False).returncode
    if status:
        raise InterfaceError(f"noise: {command!r} ended with status {status}; it must run as it did for RUNS")
    if not folder.is_dir() or not any(folder.iterdir()):
        expected = "it must make a PrecisionDebugger, or begin with msprobe run"
        raise InterfaceError(f"noise: {command!r} recorded nothing; {expected}")


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InterfaceError(f"noise: --perturb {command!r} is no command: {error}") from None
    if words and words[0].endswith(".py"):
        words.insert(0, sys.executable)
    if not words or shutil.which(words[0]) is None:
        program = words[0] if words else ""
        raise InterfaceError(f"noise: there is no program {program!r}; give it as on the command line")
    return words
