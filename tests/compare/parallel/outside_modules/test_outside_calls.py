"""Which call outside of the modules makes a wrong gradient: the loss of a real model, on halves of the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.ranks import run_ranks
from tests.recordings import Recordings

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

FAULTS = {
    "scaled": "torch.mul(loss",
    "between": "torch.mul(y, 1.5)",
}


def record(folder: Path, size: int, fault: str) -> None:
    run_ranks("tests.compare.parallel.loss_job", size, lambda rank: (rank, size, folder / "dump", fault))


@pytest.fixture
def compared(recordings: Recordings) -> Any:
    def compare(fault: str) -> Any:
        pair = [recordings(record, size, name) / "dump" for size, name in ((2, fault), (1, ""))]
        return msprobe.compare(*pair, target_parallel="dp=2").summary

    return compare


def test_halves_of_the_batch_are_the_batch(compared: Any) -> None:
    summary = compared("")
    assert summary.verdict == "same", summary.reason


@pytest.mark.parametrize("fault", ["scaled", "between"])
def test_the_line_outside_of_the_modules_is_named(compared: Any, fault: str) -> None:
    found = compared(fault).first_divergence
    assert found is not None and FAULTS[fault] in found.source, found
