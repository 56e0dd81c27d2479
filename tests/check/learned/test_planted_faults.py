"""Planted faults are found by learned relations alone, at their place, with what held before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrices import matrix_params

pytest.importorskip("torch")

from tests.check.learned.recorded import held, learned, record
from tests.check.learned.varied_programs import FAULTS, planted
from tests.ranks import run_ranks

SAMPLE = {"scale", "uncast", "untied", "same_data"}
BETWEEN_RANKS = {"unwrapped": "body", "lost_reduction": "head.bias", "same_sampler": "linear"}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", matrix_params("silent", FAULTS, SAMPLE))
def test_a_planted_fault_is_found_by_relations_alone(tmp_path: Path, name: str) -> None:
    program, good, wrong = planted(name)
    _, rule, place, _ = FAULTS[name]
    relations = learned(record(tmp_path / "good", program, good), tmp_path / "relations.json")
    found = [one for one in held(record(tmp_path / "wrong", program, wrong), relations).findings if one.rule == rule]
    assert found
    first = found[0]
    assert place in f"{first.module} {first.parameter} {first.reason}"
    assert "this held in all" in first.reason
    assert first.step is not None
    assert first.step <= 1


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.matrix("silent")
def test_faults_between_ranks_are_found_by_relations_alone(tmp_path: Path) -> None:
    def job(seed: int, wrong: str) -> Path:
        dump, store = tmp_path / f"{wrong}{seed}", tmp_path / f"{wrong}{seed}.store"
        module = "tests.check.learned.rank_program"
        run_ranks(module, 2, lambda rank: [seed, wrong, dump, 2, store, rank])
        return dump

    relations = learned(job(0, "none"), tmp_path / "relations.json")
    assert held(job(1, "none"), relations).findings == []
    for wrong, place in BETWEEN_RANKS.items():
        first, *_ = held(job(1, wrong), relations).findings
        assert place in first.reason
        assert first.certainty == "certain"
