"""The compiled kernel under test: the installed one if it is newer than its sources, else one built on the spot."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*(ROOT / "msprobe/native").glob("*.c"), *(ROOT / "msprobe/native").glob("*.h")]


def module_file(folder: Path) -> Path | None:
    """The newest compiled kernel below a folder, if it is at least as new as every source."""
    found = sorted(folder.rglob("_fused*.so"), key=lambda path: path.stat().st_mtime)
    fresh = found and found[-1].stat().st_mtime >= max(source.stat().st_mtime for source in SOURCES)
    return found[-1] if fresh else None


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The kernel module. Skips, visibly, where no C compiler is installed."""
    file = module_file(ROOT / "msprobe/native")
    if file is None:
        if shutil.which("cc") is None and shutil.which("gcc") is None:
            pytest.skip("no C compiler to build the kernel with")
        folder = tmp_path_factory.mktemp("kernel")
        command = [
            sys.executable,
            "setup.py",
            "-q",
            "build_ext",
            "--build-lib",
            str(folder),
            "--build-temp",
            str(folder),
        ]
        built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        file = module_file(folder)
        assert file is not None, f"the kernel does not compile:\n{built.stdout}{built.stderr}"
    spec = importlib.util.spec_from_file_location("_fused", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
