"""A model in many layouts: all compute the same, correct ones are called the same, and a fault is named.

``known_gaps.json`` has the cases that fail today, with what is said instead; ``python -m tests.layouts.evaluate CACHE
--gaps`` writes it anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.layout_bed.judge import judge
from tests.layout_bed.known_gaps import case_params, read_gaps
from tests.layout_bed.whole import distance_of_ranks, distances, losses, whole_parameters
from tests.layouts.cases import CASES
from tests.layouts.layouts import LAYOUTS
from tests.layouts.runs import FAULTS, GAPS, PROGRAM, Run, record_missing
from tests.matrices import matrix_params
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SAMPLE = {
    "correct/tp2/single",
    "correct/tp2/again",
    "correct/pp2/again",
    "equal/tp2/row-not-reduced",
    "equal/pp2/embedding-not-reduced",
    "fault/tp2/row-not-reduced",
}
"""Names of the cases that CI judges."""
SAMPLE_LAYOUTS = {"tp2", "pp2"}
"""Names of the layouts that CI checks against one process."""
SAMPLE_FAULTS = {"tp2-row-not-reduced", "pp2-embedding-not-reduced"}
"""Ids of the faults of which CI checks that they change something."""
BY_NAME = {case.name: case for case in CASES}
GAP_REASONS = read_gaps(GAPS)


def _params(harmless: bool) -> list[object]:
    return case_params("layouts", [case for case in CASES if case.harmless == harmless], SAMPLE, GAP_REASONS)


def record_runs(folder: Path, everything: bool) -> None:
    """Record what the tests need: all of it, or what the sample needs."""
    cases = [case for case in CASES if everything or case.name in SAMPLE]
    runs = [run for case in cases for run in (case.golden, case.target)]
    layouts = [layout for name, layout in LAYOUTS.items() if everything or name in SAMPLE_LAYOUTS]
    runs += [Run(LAYOUTS[name]) for layout in layouts for name in (layout.single, layout.name)]
    record_missing(runs, folder)


@pytest.fixture(scope="session")
def cache(recordings: Recordings, pytestconfig: pytest.Config) -> Path:
    """The folder with the recordings; that of the variable LAYOUTS_CACHE where it is set."""
    if folder := os.environ.get("LAYOUTS_CACHE"):
        return Path(folder)
    return recordings(record_runs, bool(pytestconfig.getoption("matrix")))


@pytest.mark.parametrize("name", matrix_params("layouts", LAYOUTS, SAMPLE_LAYOUTS))
def test_a_layout_computes_what_one_process_computes(name: str, cache: Path) -> None:
    layout = LAYOUTS[name]
    own, single = (Run(each).results(cache) for each in (layout, LAYOUTS[layout.single]))
    largest, mean = distances(whole_parameters(own), whole_parameters(single))
    loss = max(abs(one - other) for one, other in zip(losses(own), losses(single), strict=True))
    if layout.dtype == "float32" and not layout.fp8:
        assert max(loss, largest) <= 1e-5
    else:
        assert max(loss / 10, mean) <= 1e-3


@pytest.mark.parametrize("name", _params(harmless=True))
def test_a_correct_layout_is_the_same(name: str, cache: Path) -> None:
    answer = judge(BY_NAME[name], cache)
    assert answer.right, answer.text or answer.said


@pytest.mark.parametrize("name", _params(harmless=False))
def test_module_or_line_of_a_fault_is_named(name: str, cache: Path) -> None:
    answer = judge(BY_NAME[name], cache)
    assert answer.right, f"{BY_NAME[name].fault}: {answer.text or answer.said}"


@pytest.mark.parametrize(
    "name",
    matrix_params("layouts", FAULTS, {name for name in FAULTS if f"equal/{name.replace('-', '/', 1)}" in SAMPLE}),
)
def test_a_fault_changes_what_is_trained(name: str, cache: Path) -> None:
    fault = FAULTS[name]
    layout = LAYOUTS[fault.mode]
    healthy, faulty = (Run(layout, variant).results(cache) for variant in ("healthy", fault.name))
    assert distance_of_ranks(healthy, faulty) > 1e-4


def test_the_names_of_sample_and_gaps_are_those_of_cases() -> None:
    assert len(BY_NAME) == len(CASES)
    assert sorted((SAMPLE | set(GAP_REASONS)) - set(BY_NAME)) == []
    assert set(LAYOUTS) >= SAMPLE_LAYOUTS


def test_every_edit_fits_the_program() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in PROGRAM}
    for fault in FAULTS.values():
        assert sum(text.count(fault.old) for text in texts.values()) == 1, fault.id
        edited = {name: fault.edited(text) for name, text in texts.items()}
        (name,) = [name for name, text in edited.items() if text != texts[name]]
        compile(edited[name], name, "exec")
        for mark in fault.at or (fault.new,):
            assert sum(text.count(mark) for text in edited.values()) == 1, (fault.id, mark)


def test_the_faults_are_many_and_varied() -> None:
    origins = {fault.origin for fault in FAULTS.values()}
    assert origins >= {f"ttrace-{number}" for number in range(1, 15)}
    assert len({fault.name for fault in FAULTS.values() if fault.origin.startswith("mcore")}) >= 10
