"""What the model itself calls, outside of its layers, is named where it makes the gradient of a layer wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.compare.parallel import wrapped_job
from tests.ranks import run_ranks
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]
LINES = {"order": "torch.roll(labels, 1)", "argument": "F.cross_entropy(logits, labels"}


def record(folder: Path, size: int, fault: str) -> None:
    words = [fault] if fault else []
    run_ranks("tests.compare.parallel.wrapped_job", size, lambda rank: (rank, size, folder / "dump", *words))


def test_the_same_model_is_the_same(recordings: Recordings) -> None:
    target, golden = recordings(record, 2, "") / "dump", recordings(record, 1, "") / "dump"
    assert msprobe.compare(target, golden, target_parallel="tp=2").verdict == "same"


@pytest.mark.parametrize("fault", wrapped_job.FAULTS)
def test_the_line_of_the_call_is_named(recordings: Recordings, fault: str) -> None:
    target, golden = recordings(record, 2, fault) / "dump", recordings(record, 1, "") / "dump"
    found = msprobe.compare(target, golden, target_parallel="tp=2").summary.first_divergence
    assert found is not None
    assert "wrapped_job.py" in found.source and LINES[fault] in found.source
