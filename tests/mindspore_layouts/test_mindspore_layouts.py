"""Ranks of MindSpore, and of PyTorch, against one process of MindSpore: correct ones are the same, faults are named.

The ranks of MindSpore are processes of ``msrun`` that communicate on the CPU, those of PyTorch have gloo.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import msprobe
from tests.matrices import matrix_params
from tests.ranks import run_mindspore_ranks, run_ranks
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.mindspore, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("mindspore_job.py")
SIZES = {"target_parallel": "tp=2", "golden_parallel": "tp=2"}
CORRECT = [(framework, declare) for framework in ("torch", "mindspore") for declare in ("uneven", "even")]
PLACES = {
    "weight": ("1.Layer", "parameters.up", "value"),
    "norm": ("1.norm.LayerNorm", "parameters.weight", "copies_differ"),
    "sum": ("1.leave.ReduceOutput", "output.0", "not_added"),
    "gradient": ("1.enter.CopyInput", "output.0", "not_added"),
    "scale": ("1.Layer", "output.0", "value"),
}
"""By fault: the module, the value and the kind of the first divergence."""


def record(folder: Path, framework: str, size: int, declare: str, fault: str) -> None:
    words = (declare, *filter(None, [fault]))
    dump = folder / "dump"
    if framework == "torch":
        run_ranks("tests.mindspore_layouts.torch_job", size, lambda rank: (rank, size, dump, *words))
    elif size == 1:
        run_ranks("tests.mindspore_layouts.mindspore_job", 1, lambda _: (dump, *words))
    else:
        run_mindspore_ranks(PROGRAM, size, dump, *words)


def recorded(recordings: Recordings, framework: str, size: int, declare: str, fault: str = "") -> Path:
    return recordings(record, framework, size, declare, fault) / "dump"


@pytest.mark.parametrize(("framework", "declare"), matrix_params("layouts", CORRECT, {"torch-uneven"}))
def test_ranks_that_say_what_they_cut_are_the_same(recordings: Recordings, framework: str, declare: str) -> None:
    golden = recorded(recordings, "mindspore", 1, "even")
    summary = msprobe.compare(recorded(recordings, framework, 2, declare), golden).summary
    assert summary.verdict == "same", summary
    assert summary.counts.passed > 90 and not summary.counts.target_only and not summary.counts.golden_only


@pytest.mark.matrix("layouts")
@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_ranks_that_say_nothing_are_the_same_with_their_sizes(recordings: Recordings, framework: str) -> None:
    sides = recorded(recordings, framework, 2, "silent"), recorded(recordings, "mindspore", 1, "even")
    summary = msprobe.compare(*sides, target_parallel="tp=2").summary
    assert summary.verdict == "same", summary


@pytest.mark.matrix("layouts")
def test_ranks_of_both_frameworks_are_the_same(recordings: Recordings) -> None:
    sides = recorded(recordings, "torch", 2, "uneven"), recorded(recordings, "mindspore", 2, "uneven")
    summary = msprobe.compare(*sides, **SIZES).summary
    assert summary.verdict == "same", summary


@pytest.mark.matrix("layouts")
@pytest.mark.xfail(strict=True, reason="norms of partial sums are compared where both sides cut into as many parts")
def test_ranks_with_parts_of_other_lengths_are_the_same(recordings: Recordings) -> None:
    sides = recorded(recordings, "torch", 2, "even"), recorded(recordings, "torch", 2, "uneven")
    summary = msprobe.compare(*sides, **SIZES).summary
    assert summary.verdict == "same", summary


@pytest.mark.matrix("layouts")
@pytest.mark.parametrize("fault", PLACES)
@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_a_fault_is_named(recordings: Recordings, framework: str, fault: str) -> None:
    golden = recorded(recordings, "mindspore", 1, "even")
    summary = msprobe.compare(recorded(recordings, framework, 2, "uneven", fault), golden).summary
    first = summary.first_divergence
    assert summary.verdict == "diverged" and first is not None, summary
    slot = first.slot and first.slot.replace("gamma", "weight")
    assert (first.module, slot, first.kind) == PLACES[fault], first
    assert first.ranks == ([1] if fault == "norm" else [0, 1]), "the last rank alone has another copy"
