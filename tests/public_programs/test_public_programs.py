"""Public trainings under ``msprobe run``, without an edit: steps, models, losses, the same twice, a fault named."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

import msprobe
from msprobe.check.job import check
from msprobe.compare.rows.summary import CompareSummary
from msprobe.report.summary_text import summary_text
from tests.public_programs.catalogue import CATALOGUE, CHECK, FAULT, LOSSES, MODELS, REPEATED, STEPS, Program
from tests.public_programs.record import ALONE, FAULTY, FIRST, SECOND, output, record
from tests.recordings import Recordings

pytestmark = pytest.mark.torch


def programs(judgement: str) -> pytest.MarkDecorator:
    """Parametrize with all programs; one that msprobe cannot do is expected to fail."""

    def marks(program: Program) -> list[pytest.MarkDecorator]:
        gap = [pytest.mark.xfail(reason=program.gaps[judgement], strict=True)] if judgement in program.gaps else []
        return gap + ([pytest.mark.slow] if program.slow else [])

    return pytest.mark.parametrize("program", [pytest.param(one, id=one.name, marks=marks(one)) for one in CATALOGUE])


def compared(folder: Path, target: str, golden: str) -> CompareSummary:
    return msprobe.compare(folder / target, folder / golden).summary


def entries(folder: Path) -> list[str]:
    """Return the names of all entries of the first recording, those of each step once."""
    names: set[str] = set()
    for document in (folder / FIRST).glob("step*/*/dump.json"):
        names |= set(json.loads(document.read_text(encoding="utf-8"))["data"])
    return sorted(names)


@programs(LOSSES)
def test_what_the_program_computes_is_what_it_computes_alone(recordings: Recordings, program: Program) -> None:
    folder = recordings(record, program.name)
    assert output(folder, FIRST) == output(folder, ALONE)
    assert output(folder, FAULTY) != output(folder, ALONE), "the fault must change something"


@programs(STEPS)
def test_a_step_is_an_iteration(recordings: Recordings, program: Program) -> None:
    folder = recordings(record, program.name)
    assert sorted(path.name for path in (folder / FIRST).iterdir()) == [f"step{step}" for step in range(program.steps)]


@programs(MODELS)
def test_each_model_that_trains_is_recorded(recordings: Recordings, program: Program) -> None:
    names = entries(recordings(record, program.name))
    trained = {name.rpartition(".parameters_grad")[0] for name in names if ".parameters_grad" in name}
    found = Counter(layer for layer in program.trained for name in trained if re.search(rf"\b{layer}$", name))
    assert found == program.trained, trained


@programs(REPEATED)
def test_the_program_twice_is_the_same(recordings: Recordings, program: Program) -> None:
    summary = compared(recordings(record, program.name), SECOND, FIRST)
    assert summary.verdict == "same", summary_text(summary)


@programs(FAULT)
def test_a_fault_is_named(recordings: Recordings, program: Program) -> None:
    summary = compared(recordings(record, program.name), FAULTY, FIRST)
    text, divergence = summary_text(summary), summary.first_divergence
    assert summary.verdict == "diverged" and divergence is not None, text
    assert f"train.py:{program.line(not divergence.source_of_golden)} " in divergence.source, text
    named = divergence.module or (divergence.target or divergence.golden or "").partition(".forward")[0]
    assert re.search(rf"{program.module}$", named) if program.module else divergence.module is None, text


@programs(CHECK)
def test_a_check_of_the_program_finds_nothing(recordings: Recordings, program: Program) -> None:
    document = check([recordings(record, program.name) / FIRST])
    assert document.findings == []
    assert {hint.rule for hint in document.hints} <= program.hints, document.hints
