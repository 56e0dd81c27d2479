"""Packages that the project's environment does not have, or has in another version, in a folder of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path


class CannotInstallError(Exception):
    """No package index is reachable."""


def installed(name: str, *requirements: str) -> Path:
    """A folder for the front of PYTHONPATH that holds ``requirements`` without what they depend on.

    It is filled on first use, outside of the repository, and kept.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "msprobe-tests" / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        options = ["-q", "--disable-pip-version-check", "--no-deps", "--target", made]
        command = [sys.executable, "-m", "pip", "install", *options, *requirements]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise CannotInstallError(done.stderr.strip().splitlines()[-1])
        with contextlib.suppress(OSError):  # another process of the same test run was faster
            Path(made).rename(folder)
            Path(made).mkdir()  # for its removal
    return folder
