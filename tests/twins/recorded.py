"""Programs of both frameworks, each in a process of its own; PyTorch writes the weights that MindSpore reads."""

from __future__ import annotations

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
    for program, framework in ((f"pytorch_{what}", forked.TORCH), (f"mindspore_{what}", forked.MINDSPORE)):
        words = ["-m", f"{_HERE}.{program}", *arguments]
        done = forked.run(words, cwd=ROOT, timeout=_SECONDS, preloaded=framework)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-4000:]
