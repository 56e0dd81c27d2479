"""Transformers of PyTorch and their twins of MindSpore, recorded by a process for each framework."""

from __future__ import annotations

from pathlib import Path

from tests import forked
from tests.rules.tree import ROOT

FAULT = "blocks.1.attention.key"
"""The layer of the twin whose weight is another in the dump ``faulty``."""
_HERE = "tests.compare.layer_inference"
_SECONDS = 240


def record_twins(folder: Path) -> None:
    """Record ``pytorch``, ``twin`` and ``faulty``, which have the same weights but for ``FAULT``."""
    _run_pytorch("pytorch_twin", folder / "weights.npz", folder / "pytorch")
    _run_mindspore("mindspore_twin", folder / "weights.npz", folder, FAULT)


def record_fused(folder: Path) -> None:
    """Record the kinds of gated transformers below ``pytorch``, and kinds and faults below ``mindspore``."""
    _run_pytorch("fused_pytorch", folder / "weights.npz", folder / "pytorch")
    _run_mindspore("fused_mindspore", folder / "weights.npz", folder / "mindspore")


def _run_pytorch(program: str, *arguments: object) -> None:
    done = forked.run(["-m", f"{_HERE}.{program}", *arguments], cwd=ROOT, timeout=_SECONDS)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def _run_mindspore(program: str, *arguments: object) -> None:
    words = ["-m", f"{_HERE}.{program}", *arguments]
    done = forked.run(words, cwd=ROOT, timeout=_SECONDS, preloaded=forked.MINDSPORE)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
