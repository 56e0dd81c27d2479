"""Where rounding was measured on one process, that decides: correct layouts are the same, and a fault is named."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from msprobe.analyze.noise_learning import learn
from msprobe.core.config.perturbed_run import perturbing_environment
from msprobe.jobs.compare import CompareResult, compare
from tests.layout_bed import runs
from tests.layout_bed.runs import DUMP
from tests.layouts.layouts import LAYOUTS
from tests.layouts.runs import Run, record_missing
from tests.matrices import matrix_params
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SIZES = {
    "tp2_sp": "tp=2",
    "cp2_zigzag": "cp=2",
    "dp2_fsdp2": "dp=2",
    "ep2": "ep=2,dp=2",
    "pp2": "pp=2",
    "tp2_sp_bf16": "tp=2",
    "tp2_fp8": "tp=2",
}
"""By layout: what a user says of its ranks."""
FAULTS = [pytest.param("tp2_sp", "activation", id="tp2_sp-activation"), pytest.param("cp2", "scale", id="cp2-scale")]


def record(folder: Path, layout: str, variant: str) -> None:
    record_missing([Run(LAYOUTS[layout], variant)], folder)


def record_perturbed(folder: Path, layout: str) -> None:
    for seed in (1, 2, 3):
        moved = perturbing_environment(seed, str(folder / str(seed)))
        runs.record_missing([Run(LAYOUTS[layout])], folder / f"cache{seed}", "tests.layouts.job", **moved)


def judged(recordings: Recordings, layout: str, variant: str, noise: Path, sizes: str) -> CompareResult:
    """Compare a run with one process, by what rounding does there."""
    single = LAYOUTS[layout].single
    golden = Run(LAYOUTS[single]).folder(recordings(record, single, "healthy")) / DUMP
    moved = recordings(record_perturbed, single)
    learn([golden, *(moved / str(seed) for seed in (1, 2, 3))]).profile.write(noise)
    target = Run(LAYOUTS[layout], variant).folder(recordings(record, layout, variant)) / DUMP
    return compare(target, golden, noise=noise, target_parallel=sizes)


@pytest.mark.parametrize("layout", matrix_params("noise", SIZES, ()))
def test_a_correct_layout_is_the_same(layout: str, recordings: Recordings, tmp_path: Path) -> None:
    result = judged(recordings, layout, "healthy", tmp_path / "noise.json", SIZES[layout])
    assert result.verdict == "same", result.summary.first_divergence


@pytest.mark.parametrize(("layout", "fault"), matrix_params("noise", FAULTS, ()))
def test_a_fault_is_named(layout: str, fault: str, recordings: Recordings, tmp_path: Path) -> None:
    first = judged(recordings, layout, fault, tmp_path / "noise.json", f"{layout[:2]}=2").summary.first_divergence
    assert first is not None and (first.module or "").startswith("decoder.layers.0."), first
    assert ("mlp" if fault == "activation" else "core_attention") in (first.module or ""), first
