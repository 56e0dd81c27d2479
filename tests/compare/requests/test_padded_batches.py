"""Batches with a row per request, padded on the left or right: a request agrees, a fault is named at its token."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from msprobe.jobs.compare import compare
from tests import forked
from tests.matrices import matrix_params
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch
FAULTS = [("left", "mask"), ("left", "scale"), ("right", "mask"), ("right", "position")]
TOKEN = {"mask": 0, "position": 2, "scale": 2}
"""The token at which each fault shows first, of rows that are padded on the left."""


def record(folder: Path, *arguments: str) -> Path:
    done = forked.run(["-m", "tests.compare.requests.padded_job", folder, *arguments], cwd=ROOT, timeout=120)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("padded") / "alone", "right", "a")


@pytest.mark.parametrize("side", matrix_params("serving", ["left", "right"], ()))
def test_a_request_agrees_in_any_padded_batch(side: str, alone: Path, tmp_path: Path) -> None:
    batch, other = record(tmp_path / "one", side, "b,a,c"), record(tmp_path / "two", "right", "a,c,d,b")
    for golden in (alone, other):
        result = compare(batch, golden, target_request="a")
        assert result.verdict == "same", result.summary.reason
        assert compare(golden, batch, target_request="a").verdict == "same"
    assert compare(batch, other, target_request="c").verdict == "same"


@pytest.mark.parametrize(("side", "fault"), matrix_params("serving", FAULTS, {"left-scale"}))
def test_a_fault_is_named_at_its_token(side: str, fault: str, alone: Path, tmp_path: Path) -> None:
    wrong = record(tmp_path / "wrong", side, "a,b,c", fault)
    result = compare(wrong, alone, target_request="a")
    first = result.summary.first_divergence
    if fault == "mask" and side == "right":  # causal attention never sees what comes after its tokens
        assert first is None
        return
    assert first is not None and (first.request, first.token) == ("a", TOKEN[fault])
    assert compare(wrong, record(tmp_path / "right", "left", "c,b,a"), target_request="b").verdict == "same"
