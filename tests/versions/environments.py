"""Virtual environments of other versions of PyTorch and MindSpore, built from the package index.

One takes up to 7 GB (PyTorch with CUDA), so it is removed after its tests, unless VERSIONS_CACHE names a folder to keep
them in.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from tests.rules.tree import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CACHE = os.environ.get("VERSIONS_CACHE")


class CannotInstallError(Exception):
    """The package index does not have it, or is not reachable."""


def own_dependencies() -> list[str]:
    """Return what ``pyproject.toml`` requires of every installation."""
    (table,) = re.findall(r"^dependencies = \[\n(.*?)^\]", PROJECT, re.MULTILINE | re.DOTALL)
    return re.findall(r'"(.+?)"', table)


@contextlib.contextmanager
def environment(requirement: str, folder: Path) -> Iterator[Path]:
    """Yield the Python of an environment that has a framework, such as ``torch==2.9.1``, and what msprobe requires.

    Raises:
        CannotInstallError: pip failed; the message is its last line.
    """
    home = Path(CACHE or folder) / requirement
    python = home / "bin" / "python"
    try:
        if not (home / "complete").exists():
            venv.create(home, clear=True, with_pip=True)
            pip = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check"]
            done = subprocess.run(
                [*pip, requirement, "numpy<2", "setuptools", *own_dependencies()],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise CannotInstallError((done.stderr.strip().splitlines() or ["pip failed"])[-1])
            (home / "complete").touch()
        yield python
    finally:
        if CACHE is None:
            shutil.rmtree(home, ignore_errors=True)


def run(python: Path | str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder``, with msprobe from this checkout."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [str(python), *words], cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=900
    )


CURRENT = sys.executable
"""The Python of the tests, whose versions are the newest supported ones."""
