"""Layouts that torch and transformers make of a model agree with one process, and a planted fault is named.

The layouts are those of ``parallelize_module`` with and without sequence parallelism, the schedules of ``pipelining``,
``fully_shard`` on meshes of one and two axes, DDP, ``ZeroRedundancyOptimizer``, and the plans of transformers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import msprobe
from tests.matrices import matrix_params
from tests.ranks import run_ranks
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LAYOUTS = {
    "tensor": (2, "tp=2"),
    "sequence": (2, "tp=2"),
    "sharded": (2, "dp=2"),
    "ddp": (2, "dp=2"),
    "zero1": (2, "zero=2"),
    "ScheduleGPipe": (2, "pp=2"),
    "Schedule1F1B": (2, "pp=2"),
    "hybrid": (4, "dp=4"),
    "tensor_sharded": (4, "tp=2,dp=2"),
    "llama": (2, "tp=2"),
    "qwen2": (2, "tp=2"),
}
"""By kind: the number of ranks, and what a user says of them."""
FAULTS = [
    *((kind, "activation", "mlp") for kind in LAYOUTS),
    *((kind, "weight", "down") for kind in ("tensor", "sequence", "ScheduleGPipe", "tensor_sharded", "llama", "qwen2")),
    ("zero1", "rate", "update"),
    ("zero1", "decay", "update"),
]
"""Kind, fault, and a part of the module that has to be named, or of the reason."""
SAMPLE = {"sequence", "Schedule1F1B"}
SAMPLE_FAULTS = {"Schedule1F1B-activation"}


def record(folder: Path, kind: str, size: int, fault: str) -> None:
    run_ranks("tests.torch_layouts.job", size, lambda rank: (kind, rank, size, folder / "dump", fault))


def recorded(recordings: Recordings, kind: str, fault: str = "") -> Path:
    size = LAYOUTS[kind][0] if kind in LAYOUTS else 1
    return recordings(record, kind, size, fault) / "dump"


def one_process(recordings: Recordings, kind: str) -> Path:
    return recordings(record, kind if kind in ("llama", "qwen2") else "plain", 1, "") / "dump"


@pytest.mark.parametrize("kind", matrix_params("layouts", LAYOUTS, SAMPLE))
def test_a_correct_layout_is_the_same(recordings: Recordings, kind: str) -> None:
    sides = recorded(recordings, kind), one_process(recordings, kind)
    summary = msprobe.compare(*sides, target_parallel=LAYOUTS[kind][1]).summary
    assert summary.verdict == "same", summary
    assert summary.counts.passed > 250 and not summary.counts.target_only and not summary.counts.golden_only


@pytest.mark.matrix("layouts")
def test_shared_states_against_whole_ones(recordings: Recordings) -> None:
    """ZeRO told on one side, DDP on the other."""
    sides = recorded(recordings, "zero1"), recorded(recordings, "ddp")
    summary = msprobe.compare(*sides, target_parallel="zero=2", golden_parallel="dp=2").summary
    assert summary.verdict == "same", summary


@pytest.mark.parametrize(
    ("kind", "fault", "place"),
    matrix_params("layouts", [pytest.param(*each, id=f"{each[0]}-{each[1]}") for each in FAULTS], SAMPLE_FAULTS),
)
def test_a_fault_is_named(recordings: Recordings, kind: str, fault: str, place: str) -> None:
    sides = recorded(recordings, kind, fault), one_process(recordings, kind)
    summary = msprobe.compare(*sides, target_parallel=LAYOUTS[kind][1]).summary
    first = summary.first_divergence
    assert summary.verdict == "diverged" and first is not None, summary
    assert place in f"{first.module} {first.reason}", first
    if place == "mlp":
        assert "layers.1" in (first.module or "")
