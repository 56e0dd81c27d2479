"""Programs of both frameworks, each in a process of its own; PyTorch writes the weights that MindSpore reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import forked
from tests.rules.tree import ROOT

_HERE = "tests.twins"
_SECONDS = 900


def record_layers(folder: Path, *names: str) -> None:
    """Record the kinds of these names below ``FRAMEWORK/LEVEL/NAME/VARIANT``."""
    record_both("layers", folder, *names)


def record_both(what: str, *arguments: object) -> None:
    """Run ``pytorch_WHAT``, then ``mindspore_WHAT``."""
    done = forked.run(["-m", f"{_HERE}.pytorch_{what}", *arguments], cwd=ROOT, timeout=_SECONDS)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-4000:]
    command = [sys.executable, "-m", f"{_HERE}.mindspore_{what}", *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
