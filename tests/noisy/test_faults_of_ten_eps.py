"""What one unit round-off does to a program is measured: a fault of 10 eps is named at its module, correct runs agree.

In float32, bfloat16 and emulated eight bits, on one process and cut over two. Faulty runs round otherwise, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from msprobe.analyze.noise_learning import learn
from msprobe.jobs.compare import CompareResult, compare
from tests.matrices import matrix_params
from tests.noisy.rounding_job import BACKWARDS, FAULTS, FORMATS, MOVED
from tests.ranks import run_ranks
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
RUNS = [pytest.param(name, size, id=f"{name}-{size}") for name in FORMATS for size in (1, 2)]
SAMPLE = {"bf16-1", "fp32-2"}


def record(folder: Path, name: str, size: int) -> None:
    run_ranks("tests.noisy.rounding_job", size, lambda rank: (name, rank, size, folder), MSPROBE_LOG_LEVEL="4")


class Runs:
    """The runs of a format with a number of processes, and the golden one on one process."""

    def __init__(self, recordings: Recordings, name: str, size: int, noise: Path) -> None:
        golden = recordings(record, name, 1)
        self.target, self.golden, self.noise = recordings(record, name, size), golden / "right", noise
        self.options = {"target_parallel": "tp=2"} if size > 1 else {}
        learn([self.golden, *(golden / moved for moved in MOVED)]).profile.write(noise)

    def compared(self, variant: str, noise: bool = True) -> CompareResult:
        return compare(self.target / variant, self.golden, noise=self.noise if noise else None, **self.options)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("name", "size"), matrix_params("noise", RUNS, SAMPLE))
def test_correct_runs_agree_and_a_fault_of_ten_eps_is_named(
    name: str, size: int, recordings: Recordings, tmp_path: Path
) -> None:
    runs = Runs(recordings, name, size, tmp_path / "noise.json")
    for variant in ("right", BACKWARDS):
        for noise in (True, False):
            result = runs.compared(variant, noise)
            assert result.verdict == "same", (variant, noise, result.summary.first_divergence)
    for fault in FAULTS:
        first = runs.compared(fault).summary.first_divergence
        assert first is not None, fault
        assert (first.module or "").rpartition(".")[0] == fault, first.reason
