"""Trainings of several processes, spread in every way: equal ones are the same, and a fault is named with its rank."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import msprobe
from tests.matrices import matrix_params
from tests.parallel_modes.modes import FAULTS, MODES, Fault
from tests.ranks import run_ranks
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SAMPLE = ("by_hand", "tp_by_hand", "tp", "1f1b", "experts")
"""The modes that CI runs, with all their faults."""
_LINE = re.compile(r":(\d+) in ")


def record(folder: Path, mode: str) -> None:
    variants = [fault.name for fault in FAULTS.values() if fault.mode == mode]
    words = [folder, mode, "healthy", "again", *variants]
    run_ranks("tests.parallel_modes.job", MODES[mode].size, lambda rank: [rank, *words])


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("mode", matrix_params("ranks", MODES, SAMPLE))
def test_the_same_program_twice_is_the_same(mode: str, recordings: Recordings) -> None:
    folder = recordings(record, mode)
    result = msprobe.compare(folder / "again" / "dump", folder / "healthy" / "dump")
    assert (result.verdict, result.summary.first_divergence) == ("same", None)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(
    "name", matrix_params("ranks", FAULTS, [fault.id for fault in FAULTS.values() if fault.mode in SAMPLE])
)
def test_a_fault_is_named_with_rank_module_and_line(name: str, recordings: Recordings) -> None:
    fault = FAULTS[name]
    folder = recordings(record, fault.mode)
    found = msprobe.compare(folder / fault.name / "dump", folder / "healthy" / "dump").summary.first_divergence
    assert found is not None
    place = _LINE.search(found.source)
    assert place is not None
    assert (found.rank in (fault.ranks or range(4)), int(place[1]) in lines(folder, fault)) == (True, True), found
    assert fault.module in (found.module or ""), found
    assert fault.entry in (found.target or found.golden or ""), found


@pytest.mark.parametrize("turned", [False, True], ids=["pipeline_target", "pipeline_golden"])
def test_micro_batches_of_a_pipeline_are_compared_with_one_process(
    turned: bool, recordings: Recordings, tmp_path: Path
) -> None:
    spread = recordings(record, "1f1b") / "healthy" / "dump"
    alone = tmp_path / "alone"
    shutil.copytree(spread / "step0" / "rank0", alone / "step0" / "rank0")
    if turned:
        result = msprobe.compare(alone, spread, golden_parallel="pp=2")
    else:
        result = msprobe.compare(spread, alone, target_parallel="pp=2")
    assert result.verdict == "diverged", "one process has the first stage alone"
    found = result.summary.first_divergence
    assert found is not None and (found.golden if turned else found.target) is not None


def lines(folder: Path, fault: Fault) -> set[int]:
    """Return the numbers of the lines of which one has to be named."""
    rank = fault.ranks[0] if fault.ranks else 0
    program = (folder / fault.name / f"program{rank}").glob("*.py")
    return set().union(*(fault.lines(path.read_text(encoding="utf-8")) for path in program))
