"""Gradients in a buffer, and the norm by which they are clipped: the call that makes them wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.ranks import run_ranks
from tests.recordings import Recordings

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

WHOLE, SHARDS = "whole", "shards"
LINES = {
    (WHOLE, "copy-reduced"): "dist.all_reduce(buffer",
    (WHOLE, "norm-twice"): "total = torch.add(total, total)",
    (SHARDS, "own-norm"): "dist.all_reduce(total",
}


def record(folder: Path, size: int, kind: str, fault: str) -> None:
    job = "tests.compare.after_backward.buffer_job"
    run_ranks(job, size, lambda rank: (rank, size, folder / "dump", kind, *filter(None, [fault])))


@pytest.fixture
def compared(recordings: Recordings) -> Any:
    def compare(kind: str, fault: str, *, merged: bool) -> Any:
        target = recordings(record, 2, kind, fault) / "dump"
        golden = recordings(record, *((1, WHOLE) if merged else (2, kind)), "") / "dump"
        return msprobe.compare(target, golden, **({"target_parallel": "dp=2"} if merged else {})).summary

    return compare


@pytest.mark.parametrize("kind", [WHOLE, SHARDS])
def test_halves_of_the_batch_are_the_batch(compared: Any, kind: str) -> None:
    summary = compared(kind, "", merged=True)
    assert summary.verdict == "same", summary.reason


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(("kind", "fault"), LINES)
def test_the_call_is_named(compared: Any, kind: str, fault: str, merged: bool) -> None:
    found = compared(kind, fault, merged=merged).first_divergence
    assert found is not None, "same"
    assert LINES[kind, fault] in found.source, (found.source, found.reason)


@pytest.mark.parametrize("kind", [WHOLE, SHARDS])
def test_gradients_that_are_not_averaged_are_no_difference_where_clipping_divides_by_their_norm(
    compared: Any, kind: str
) -> None:
    """The values decide: what the optimizer gets is the same."""
    assert compared(kind, "not-averaged", merged=True).verdict == "same"
