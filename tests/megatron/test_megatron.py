"""megatron-core in several layouts: all compute the same, correct ones are called the same, and a fault is named.

``known_gaps.json`` has the cases that fail today, with what is said instead; ``python -m tests.megatron.evaluate CACHE
--gaps`` writes it anew. Without megatron-core, and without a package index to get it from, nothing runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.layout_bed.judge import judge
from tests.layout_bed.known_gaps import case_params, read_gaps
from tests.layout_bed.whole import distance_of_ranks, distances, losses, whole_parameters
from tests.matrices import matrix_params
from tests.megatron.cases import CASES
from tests.megatron.layouts import LAYOUTS
from tests.megatron.package import megatron_folder
from tests.megatron.runs import FAULTS, GAPS, Run, record_missing
from tests.recordings import Recordings
from tests.separate_packages import CannotInstallError

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SAMPLE = {
    "correct/tp2/single",
    "correct/tp2/again",
    "correct/tp2/untold",
    "fault/tp2/attention-scale",
    "untold/tp2/attention-scale",
    "equal/tp2/row-not-reduced",
}
"""Names of the cases that CI judges."""
BY_NAME = {case.name: case for case in CASES}
GAP_REASONS = read_gaps(GAPS)


def _params(harmless: bool) -> list[object]:
    return case_params("megatron", [case for case in CASES if case.harmless == harmless], SAMPLE, GAP_REASONS)


def record_runs(folder: Path, everything: bool) -> None:
    """Record what the tests need: all of it, or what the sample needs."""
    cases = [case for case in CASES if everything or case.name in SAMPLE]
    record_missing([run for case in cases for run in (case.golden, case.target)], folder)


@pytest.fixture(scope="session")
def cache(recordings: Recordings, pytestconfig: pytest.Config) -> Path:
    """The folder with the recordings; that of the variable MEGATRON_CACHE where it is set."""
    try:
        megatron_folder()
    except CannotInstallError as error:
        pytest.skip(f"megatron-core: {error}")
    if folder := os.environ.get("MEGATRON_CACHE"):
        return Path(folder)
    return recordings(record_runs, bool(pytestconfig.getoption("matrix")))


@pytest.mark.parametrize("name", matrix_params("megatron", LAYOUTS, {"tp2"}))
def test_a_layout_computes_what_one_process_computes(name: str, cache: Path) -> None:
    layout = LAYOUTS[name]
    own, single = (Run(each).results(cache) for each in (layout, LAYOUTS[layout.single]))
    largest, _ = distances(whole_parameters(own), whole_parameters(single))
    loss = max(abs(one - other) for one, other in zip(losses(own), losses(single), strict=True))
    assert max(loss, largest) <= 1e-6


@pytest.mark.parametrize("name", _params(harmless=True))
def test_a_correct_layout_is_the_same(name: str, cache: Path) -> None:
    answer = judge(BY_NAME[name], cache)
    assert answer.right, answer.text or answer.said


@pytest.mark.parametrize("name", _params(harmless=False))
def test_module_or_function_of_a_fault_is_named(name: str, cache: Path) -> None:
    answer = judge(BY_NAME[name], cache)
    assert answer.right, f"{BY_NAME[name].fault}: {answer.text or answer.said}"


@pytest.mark.parametrize("name", matrix_params("megatron", FAULTS, {"tp2-row-not-reduced", "tp2-attention-scale"}))
def test_a_fault_changes_what_is_trained(name: str, cache: Path) -> None:
    fault = FAULTS[name]
    layout = LAYOUTS[fault.mode]
    healthy, faulty = (Run(layout, variant).results(cache) for variant in ("healthy", fault.name))
    other_losses = [one["losses"] for one in healthy] != [one["losses"] for one in faulty]
    assert distance_of_ranks(healthy, faulty) > 1e-4 or other_losses


def test_the_names_of_sample_and_gaps_are_those_of_cases() -> None:
    assert len(BY_NAME) == len(CASES)
    assert sorted((SAMPLE | set(GAP_REASONS)) - set(BY_NAME)) == []
