"""Dumps of the reference against ours of the same program: what means the same is compared, the rest is a remark.

The reference is not needed: its recordings are stored (see ``stored.py``), ours are made here. The matrix records all
programs at all levels and tasks with both; the variable ``REFERENCE_PYTHON`` names a python that has the reference.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import msprobe
from msprobe.jobs.compare import CompareResult
from tests.fresh_debugger import forget
from tests.matrices import matrix_params
from tests.recordings import Recordings
from tests.reference_dumps.programs import FAULTS, PROGRAMS
from tests.reference_dumps.record import Job, run
from tests.reference_dumps.stored import CLEAN, FAULTY, record_with, unpack
from tests.rules.tree import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.slow]
REFERENCE = os.environ.get("REFERENCE_PYTHON", "")
DIRECTIONS = ("reference is golden", "reference is target")
FIRST = {
    "mlp-weight-mix": "Module.second.Linear.forward.0",
    "mlp-operation-mix": "Tensor.__mul__.0.forward",
    "mlp-argument-mix": "Functional.leaky_relu.0.forward",
    "mlp-detached-mix": "Module.second.Linear.backward.0 Functional.linear.1.backward",
    "mlp-lr-mix": "Tensor.add_.0.forward",
    "cnn-eps-L0": "Module.norm.BatchNorm2d.forward.0",
    "transformer-mask-mix": "Functional.softmax.1.forward",
    "checkpointed-weight-L1": "Functional.linear.3.forward",
    "half-weight-L1": "Functional.multi_head_attention_forward.0.forward",
    "half-lr-L0": "Module.inner.first.Linear.forward.0",
}
"""Fault -> the call that is named (one of these), whichever side has the fault and whichever tool recorded it."""
LEVELS, TASKS = ("L0", "L1", "mix"), ("tensor", "md5", "xor")
NOISY = ("half-md5", "half-xor")
"""Programs whose results differ in the last bits between two processes, as checksums say. Two ranks under the reference
do so in most programs, from one run to the next, so that they are recorded without checksums."""


def record(folder: Path, program: str, fault: str, level: str, ranks: int) -> None:
    """Record a program with this msprobe."""
    job = Job(str(folder), program, fault, level, ranks=ranks)
    if ranks > 1:
        record_with(sys.executable, [job], {**os.environ, "PYTHONPATH": str(ROOT)})
        return
    forget()
    run(job)
    forget()


@pytest.fixture
def ours(recordings: Recordings) -> Callable[[Job], Path]:
    """Return the function that gives the folder of a recording of ours."""
    return lambda job: recordings(record, job.program, job.fault, job.level, job.ranks)


def _compared(reference: Path, own: Path, direction: str, output: Path) -> CompareResult:
    target, golden = (own, reference) if direction == DIRECTIONS[0] else (reference, own)
    return msprobe.compare(target, golden, output=output, pair="order")


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("job", [pytest.param(job, id=job.name) for job in CLEAN])
def test_the_same_program_is_the_same(job: Job, direction: str, ours: Callable[[Job], Path], tmp_path: Path) -> None:
    summary = _compared(unpack(job, tmp_path / "stored"), ours(job), direction, tmp_path / "out").summary
    assert (summary.verdict, summary.first_divergence, summary.incomplete) == ("same", None, [])
    assert summary.counts.error == 0
    assert summary.counts.passed > 0.8 * summary.counts.pairs


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("job", [pytest.param(job, id=job.name) for job in FAULTY])
def test_a_fault_in_the_run_of_the_reference_is_named(
    job: Job, direction: str, ours: Callable[[Job], Path], tmp_path: Path
) -> None:
    clean = ours(job._replace(fault=""))
    first = _compared(unpack(job, tmp_path / "stored"), clean, direction, tmp_path / "out").summary.first_divergence
    assert first is not None
    assert {first.target, first.golden} & set(FIRST[_fault(job)].split())


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("job", [pytest.param(job, id=job.name) for job in FAULTY if "L" not in job.level])
def test_a_fault_in_our_run_is_named(job: Job, direction: str, ours: Callable[[Job], Path], tmp_path: Path) -> None:
    clean = unpack(job._replace(fault=""), tmp_path / "stored")
    first = _compared(clean, ours(job), direction, tmp_path / "out").summary.first_divergence
    assert first is not None
    assert {first.target, first.golden} & set(FIRST[_fault(job)].split())


def _fault(job: Job) -> str:
    return f"{job.program}-{job.fault}-{job.level}"


def test_what_is_recorded_differently_is_a_remark(ours: Callable[[Job], Path], tmp_path: Path) -> None:
    """Our dumps have a mark, so that two of them are compared as ever."""
    job = Job("", "odd")
    summary = _compared(unpack(job, tmp_path / "stored"), ours(job), DIRECTIONS[0], tmp_path / "out").summary
    assert "recorded differently by the tool of the golden run" in (summary.reason or "")
    own = msprobe.compare(ours(job), ours(job), output=tmp_path / "own").summary
    assert "recorded differently" not in (own.reason or "")


def test_the_published_policy_judges_every_row(ours: Callable[[Job], Path], tmp_path: Path) -> None:
    job = Job("", "mlp")
    paths = ours(job), unpack(job, tmp_path / "stored")
    result = msprobe.compare(*paths, output=tmp_path, policy="reference")
    assert "recorded differently" not in (result.summary.reason or "")


# The matrix


def _jobs() -> list[Job]:
    jobs = [Job("", name, level=level) for name in PROGRAMS for level in LEVELS]
    jobs += [Job("", name, task=task) for name in PROGRAMS for task in TASKS if f"{name}-{task}" not in NOISY]
    jobs += [
        Job("", name, level=level, task="tensor", ranks=2)
        for name in ("mlp", "cnn", "accumulated", "checkpointed", "odd", "lstm")
        for level in LEVELS
    ]
    jobs += [Job("", name, fault, level) for name in PROGRAMS for fault in FAULTS[name] for level in LEVELS]
    jobs += [
        Job("", name, fault, level, ranks=2)
        for name in ("mlp", "transformer")
        for fault in ("", "weight", "lr")
        for level in LEVELS
    ]
    return jobs + [
        Job("", "mlp", fault, "debug", task) for fault in ("", "weight") for task in ("statistics", "tensor")
    ]


@pytest.fixture(scope="session")
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders with the recordings of the reference and of ours that the selected tests need."""
    if not REFERENCE:
        pytest.skip("REFERENCE_PYTHON names no python with the reference")
    root = tmp_path_factory.mktemp("both")
    chosen = {item.callspec.params["job"] for item in request.session.items if "both" in item.fixturenames}
    needed = sorted(chosen | {job._replace(fault="") for job in chosen})
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name, python, path in (("reference", REFERENCE, {}), ("ours", sys.executable, {"PYTHONPATH": str(ROOT)})):
        jobs = [job._replace(folder=str(root / name / job.name)) for job in needed]
        record_with(python, jobs, {**surroundings, **path, "OMP_NUM_THREADS": "1"})
    return root / "reference", root / "ours"


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("job", matrix_params("reference", [pytest.param(job, id=job.name) for job in _jobs()], []))
def test_every_recording(job: Job, direction: str, both: tuple[Path, Path], tmp_path: Path) -> None:
    reference, own = both
    clean = job._replace(fault="").name
    folders = (reference / clean, own / job.name) if direction == DIRECTIONS[0] else (reference / job.name, own / clean)
    summary = _compared(*folders, direction, tmp_path).summary
    assert summary.verdict == ("diverged" if job.fault else "same"), json.dumps(summary.reason)
