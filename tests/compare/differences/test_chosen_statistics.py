"""Dumps that hold only some statistics (a list in ``summary_mode``) are judged by these, each in its own units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

STATISTICS = {"Max", "Min", "Mean", "Norm"}


def chosen(names: str, factor: float) -> dict[str, Any]:
    return {key: value for key, value in tensor(factor).items() if key not in STATISTICS - set(names.split())}


@pytest.mark.parametrize("names", ["Max", "Min", "Mean", "Norm", "Max Mean", "Mean Norm"])
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "same"), (1 + 1e-7, "same"), (1.05, "diverged")])
def test_the_common_statistics_decide(tmp_path: Path, names: str, factor: float, verdict: str) -> None:
    for name, own in (("a", factor), ("b", 1.0)):
        nodes = [chosen(names, own)]
        write(tmp_path / name, {"Torch.abs.0.forward": call([chosen(names, 1.0)], nodes)})
    summary = msprobe.compare(tmp_path / "a", tmp_path / "b").summary
    assert summary.verdict == verdict
    assert summary.counts.warning == 0
