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
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.rules.tree import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CACHE = os.environ.get("VERSIONS_CACHE")
COMPLETE = "complete"
"""Name of the file that says that an environment or a folder of packages has all that belongs to it."""
COMPANIONS = {
    "accelerate==0.20.3": ("setuptools==74.1.3",),
    "pytorch_lightning==1.9.5": ("lightning_utilities==0.10.0", "setuptools==74.1.3", "torchmetrics==0.11.4"),
    "timm==0.6.13": ("torchvision==0.28.0",),
    "timm==1.0.31": ("torchvision==0.28.0",),
    "transformers==4.25.1": ("huggingface_hub==0.23.0", "tokenizers==0.13.3"),
    "transformers==4.30.2": ("huggingface_hub==0.23.0", "tokenizers==0.13.3"),
    "transformers==4.36.2": ("huggingface_hub==0.23.0", "tokenizers==0.15.2"),
    "transformers==4.46.3": ("huggingface_hub==0.26.0", "tokenizers==0.20.3"),
}
"""Package -> the other packages that it needs in another version than the tests have."""


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
        if not (home / COMPLETE).exists():
            venv.create(home, clear=True, with_pip=True)
            _install(python, requirement, "numpy<2", "setuptools", *own_dependencies())
            (home / COMPLETE).touch()
        yield python
    finally:
        if CACHE is None:
            shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def packages(requirements: Iterable[str], folder: Path) -> Iterator[dict[str, Path | CannotInstallError]]:
    """Yield for each requirement a folder for PYTHONPATH with it and its ``COMPANIONS``, over the Python of the tests.

    Nothing else that they require is installed, but for another PyTorch, which is that of its environment. What cannot
    be installed has the error in the place of a folder.
    """
    found: dict[str, Path | CannotInstallError] = {}
    with contextlib.ExitStack() as stack:
        for requirement in requirements:
            try:
                found[requirement] = _package(requirement, folder, stack)
            except CannotInstallError as error:
                found[requirement] = error
        yield found


def _package(requirement: str, folder: Path, stack: contextlib.ExitStack) -> Path:
    if requirement.startswith("torch=="):
        python = stack.enter_context(environment(requirement, folder))
        return next(python.parents[1].glob("lib/python*/site-packages"))
    home = Path(CACHE or folder) / requirement
    if not (home / COMPLETE).exists():
        shutil.rmtree(home, ignore_errors=True)
        _install(sys.executable, "--no-deps", "--target", str(home), requirement, *COMPANIONS.get(requirement, ()))
        # torchvision for CUDA has no operators under a PyTorch for the CPU, and fails to say what they return.
        for registrations in home.glob("torchvision/_meta_registrations.py"):
            registrations.write_text("", encoding="utf-8")
        (home / COMPLETE).touch()
    return home


def _install(python: Path | str, *words: str) -> None:
    pip = [str(python), "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstallError((done.stderr.strip().splitlines() or ["pip failed"])[-1])


def run(python: Path | str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder``, with msprobe from this checkout."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [str(python), *words], cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=900
    )


CURRENT = sys.executable
"""The Python of the tests, whose versions are the newest supported ones."""
