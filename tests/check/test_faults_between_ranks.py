"""Faults that show between ranks, and correct jobs of several ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.check.findings import CheckDocument
from msprobe.check.job import check
from msprobe.jobs.executors.processes import ProcessExecutor
from tests.matrices import matrix_params
from tests.ranks import run_ranks

pytest.importorskip("torch")

from tests.check.rank_programs import CORRECT, PLANTED

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SAMPLE = {"left_out", "clipped_on_one_rank", "by_hand", "expert_parallel"}


def judged(folder: Path, name: str, wrong: str) -> CheckDocument:
    store, dump = folder / f"{wrong}.store", folder / wrong
    run_ranks("tests.check.rank_programs", 2, lambda rank: [name, wrong, str(dump), "2", str(store), str(rank)])
    return check([dump], choose=lambda count, sizes: ProcessExecutor(2).run if name == "left_out" else None)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("name", matrix_params("check", PLANTED, SAMPLE))
def test_a_fault_between_ranks_is_found(tmp_path: Path, name: str) -> None:
    _, rule, place = PLANTED[name]
    found = judged(tmp_path, name, "wrong")
    first = next(one for one in found.findings if one.rule == rule)
    assert place in f"{first.module} {first.parameter} {first.call}"
    assert first.ranks == (0, 1)
    assert judged(tmp_path, name, "right").findings == []


@pytest.mark.parametrize("name", matrix_params("check", CORRECT, SAMPLE))
def test_nothing_is_found_in_correct_jobs(tmp_path: Path, name: str) -> None:
    assert judged(tmp_path, name, "right").findings == []
