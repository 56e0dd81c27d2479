"""A server on two tensor-parallel ranks against the plain model: a request agrees in a batch, a fault is named.

The rows of a request are cut while they are recorded (``request_id``), so that its ranks can be merged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from msprobe.core.errors import MsprobeException
from msprobe.jobs.compare import compare
from tests import forked
from tests.matrices import matrix_params
from tests.ranks import run_ranks
from tests.recordings import Recordings
from tests.rules.tree import ROOT

SERVER = ROOT / "examples" / "serving" / "packed_server.py"
ROWS = "--task", "statistics", "--request-id", "a", "--list", "embed,layers,Module.norm"
"""Rows of request a alone, of all modules but the head, which gets one row of each request."""
PLACES = {
    ("--fault", "position"): "embed_positions.Embedding",
    ("--fault", "slot"): "layers.0.self_attn.Attention",
    ("--fault", "mask"): "layers.0.self_attn.Attention",
    ("--fault", "scale"): "layers.0.self_attn.Attention",
    ("--not-added",): "layers.1.DecoderLayer",
}
"""The module that is named of each fault."""
pytestmark = pytest.mark.torch


def record(folder: Path, size: int, *arguments: str) -> None:
    if size == 1:
        assert forked.run([SERVER, folder / "dump", *arguments], timeout=120).returncode == 0
        return
    given = folder / "store", folder / "dump", *arguments
    run_ranks("tests.compare.requests.parallel_server", size, lambda rank: (rank, size, *given), MSPROBE_LOG_LEVEL="4")


@pytest.mark.parametrize("plan", matrix_params("serving", ["b,a,c;b,a,c", "a,b;b,a"], ()))
def test_a_request_of_a_parallel_server_agrees(plan: str, recordings: Recordings) -> None:
    batch, alone = recordings(record, 2, plan, *ROWS), recordings(record, 1, "a;a", *ROWS)
    result = compare(batch / "dump", alone / "dump", target_parallel="tp=2")
    assert result.verdict == "same", result.summary.first_divergence


@pytest.mark.parametrize("fault", matrix_params("serving", [pytest.param(each, id=each[-1]) for each in PLACES], ()))
def test_a_fault_of_a_parallel_server_is_named(fault: tuple[str, ...], recordings: Recordings) -> None:
    batch, alone = recordings(record, 2, "a,b;a,b", *fault, *ROWS), recordings(record, 1, "a;a", *ROWS)
    first = compare(batch / "dump", alone / "dump", target_parallel="tp=2").summary.first_divergence
    assert first is not None and first.module == PLACES[fault], first


@pytest.mark.matrix("serving")
def test_rank_by_rank_the_token_is_named(recordings: Recordings) -> None:
    alone = recordings(record, 2, "a;a;a") / "dump"
    assert compare(recordings(record, 2, "b,a,c;b,a,c") / "dump", alone, target_request="a").verdict == "same"
    wrong = compare(recordings(record, 2, "a,b;a,b", "--fault", "slot") / "dump", alone, target_request="a")
    first = wrong.summary.first_divergence
    assert first is not None and (first.name, first.token) == ("Torch.matmul.0.forward", 2)


def test_what_merged_ranks_need_is_said(tmp_path: Path) -> None:
    with pytest.raises(MsprobeException, match="record its rows alone with request_id, or compare rank by rank"):
        compare(tmp_path, tmp_path, target_request="a", target_parallel="tp=2")
