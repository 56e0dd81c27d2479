"""Sharded and pipelined trainings whose buffers hold something else each time: equal runs agree, faults are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import msprobe
from tests.ranks import run_ranks

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SHARDED, PIPELINED = ("fsdp", "fsdp_mixed", "fsdp_whole"), ("gpipe", "1f1b")
ALL = pytest.mark.parametrize("kind", [*SHARDED, *PIPELINED])
PACKAGE = "-packages/torch/distributed/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unwritten")
    run_ranks("tests.adapters.pytorch.distributed.unwritten_job", 2, lambda rank: (rank, folder))
    return folder


def document(folder: Path, kind: str, rank: int, task: str = "statistics") -> dict[str, Any]:
    text = (folder / task / "L1" / kind / "healthy" / "step0" / f"rank{rank}" / "dump.json").read_text()
    data: dict[str, Any] = json.loads(text)["data"]
    return data


def stacks(folder: Path, kind: str) -> dict[str, str]:
    """Return the innermost frame of each entry, in the modules of torch or the test."""
    found = {}
    for rank in range(2):
        path = folder / "statistics" / "L1" / kind / "healthy" / "step0" / f"rank{rank}" / "stack.json"
        for names, frames in json.loads(path.read_text()).values():
            found.update(dict.fromkeys(names, frames[0]))
    return found


@ALL
def test_two_equal_runs_are_the_same(folder: Path, kind: str) -> None:
    runs = folder / "statistics" / "L1" / kind
    result = msprobe.compare(runs / "again", runs / "healthy")
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


@pytest.mark.matrix("wide", sample="each value")
@ALL
@pytest.mark.parametrize("fault", ["scaled", "lost"])
def test_a_fault_is_found_where_it_is(folder: Path, kind: str, fault: str) -> None:
    runs = folder / "statistics" / "L1" / kind
    divergence = msprobe.compare(runs / fault, runs / "healthy").summary.first_divergence
    assert divergence is not None
    calls = 3 if kind in SHARDED else 1  # the second layer of the last block, on its rank
    assert (divergence.target, divergence.slot) == (f"Functional.linear.{calls}.forward", "input.0")
    assert kind in SHARDED or divergence.rank == 1


@ALL
@pytest.mark.parametrize("rank", [0, 1])
def test_a_healthy_run_has_no_overflow(folder: Path, kind: str, rank: int) -> None:
    assert document(folder, kind, rank, "overflow_check") == {}


@ALL
def test_of_the_code_that_spreads_a_model_only_collectives_are_recorded(folder: Path, kind: str) -> None:
    own = {name for name, frame in stacks(folder, kind).items() if PACKAGE in frame}
    assert own
    assert all(name.startswith("Distributed.") for name in own)


@ALL
def test_the_model_is_recorded(folder: Path, kind: str) -> None:
    names = [name for rank in range(2) for name in document(folder, kind, rank)]
    per_rank = 4  # two layers in two blocks, or in two micro batches
    for phase in ("forward", "backward"):
        calls = [name for name in names if name.startswith("Functional.linear.") and name.endswith(phase)]
        assert len(calls) == 2 * per_rank


@pytest.mark.parametrize("kind", PIPELINED)
def test_what_a_batch_receives_is_no_input(folder: Path, kind: str) -> None:
    entries = [entry for rank in range(2) for entry in document(folder, kind, rank).items()]
    batches = [entry for name, entry in entries if name.startswith("Distributed.batch_isend_irecv.")]
    pairs = [pair for entry in batches for pair in zip(entry["input_args"][0], entry["output"][0], strict=True)]
    assert {before["op"] for before, _ in pairs} == {"isend", "irecv"}
    for before, after in pairs:
        assert (before["tensor"] is None) is (before["op"] == "irecv")
        assert after["tensor"]["Norm"] is not None


@pytest.mark.parametrize("kind", SHARDED)
def test_what_a_collective_receives_is_no_input(folder: Path, kind: str) -> None:
    gathered = [entry for name, entry in document(folder, kind, 0).items() if "all_gather" in name]
    assert gathered
    for entry in gathered:
        assert entry["input_args"][0] is None
        assert entry["input_args"][1]["Norm"] is not None
