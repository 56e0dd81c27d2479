"""Public trainings under ``msprobe run``, without an edit: steps, models, losses, the same twice, a fault named."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

pytest.importorskip("torch")

import msprobe
from msprobe.check.job import check
from msprobe.compare.rows.summary import CompareSummary
from msprobe.report.summary_text import summary_text
from tests.matrices import matrix_params
from tests.public_programs.catalogue import CATALOGUE, CHECK, FAULT, LOSSES, MODELS, REPEATED, STEPS, Program
from tests.public_programs.record import ALONE, FIRST, SECOND, faulty, output, record
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SAMPLE = {"actor_critic", "dcgan", "forward_forward", "td3", "wgan", "word_language_model"}
"""Programs that CI runs: those with several models, updates by hand, or layers that are called directly."""


def cases(judgement: str, numbers: Callable[[Program], range] = lambda _: range(1)) -> pytest.MarkDecorator:
    """Parametrize with the programs, or the faults of each."""

    def case(program: Program, number: int) -> ParameterSet:
        of_fault = judgement == FAULT
        name = f"{program.name}-{number}" if of_fault else program.name
        return pytest.param(*((program, number) if of_fault else (program,)), id=name)

    names = ("program", "number") if judgement == FAULT else ("program",)
    params = [case(one, number) for one in CATALOGUE for number in numbers(one)]
    sample = [param.id or "" for param in params if (param.id or "").split("-")[0] in SAMPLE]
    return pytest.mark.parametrize(names, matrix_params("programs", params, sample))


def compared(folder: Path, target: str, golden: str) -> CompareSummary:
    return msprobe.compare(folder / target, folder / golden).summary


def entries(folder: Path) -> list[str]:
    """Return the names of all entries of the first recording, those of each step once."""
    names: set[str] = set()
    for document in (folder / FIRST).glob("step*/*/dump.json"):
        names |= set(json.loads(document.read_text(encoding="utf-8"))["data"])
    return sorted(names)


@pytest.mark.matrix("wide", sample=3)
@cases(LOSSES)
def test_what_the_program_computes_is_what_it_computes_alone(recordings: Recordings, program: Program) -> None:
    folder = recordings(record, program.name)
    assert output(folder, FIRST) == output(folder, ALONE)


@cases(STEPS)
def test_a_step_is_an_iteration(recordings: Recordings, program: Program) -> None:
    folder = recordings(record, program.name)
    assert sorted(path.name for path in (folder / FIRST).iterdir()) == [f"step{step}" for step in range(program.steps)]


@cases(MODELS)
def test_each_model_that_trains_is_recorded(recordings: Recordings, program: Program) -> None:
    names = entries(recordings(record, program.name))
    trained = {name[: found.start()] for name in names if (found := re.search(r"\.(parameters_grad|backward)\b", name))}
    found = Counter(layer for layer in program.trained for name in trained if re.search(rf"\b{layer}$", name))
    assert found == program.trained, trained


@cases(REPEATED)
def test_the_program_twice_is_the_same(recordings: Recordings, program: Program) -> None:
    summary = compared(recordings(record, program.name), SECOND, FIRST)
    assert summary.verdict == "same", summary_text(summary)


@cases(FAULT, lambda program: range(len(program.faults)))
def test_a_fault_is_named(recordings: Recordings, program: Program, number: int) -> None:
    folder, fault = recordings(record, program.name), program.faults[number]
    assert output(folder, faulty(number)) != output(folder, ALONE), "the fault must change something"
    summary = compared(folder, faulty(number), FIRST)
    text, divergence = summary_text(summary), summary.first_divergence
    assert summary.verdict == "diverged" and divergence is not None, text
    assert f"train.py:{fault.line(program.text, faulty=not divergence.source_of_golden)} " in divergence.source, text
    named = divergence.module or (divergence.target or divergence.golden or "").partition(".forward")[0]
    assert re.search(rf"{fault.module}$", named) if fault.module else divergence.module is None, text


@cases(CHECK)
def test_a_check_of_the_program_finds_nothing(recordings: Recordings, program: Program) -> None:
    document = check([recordings(record, program.name) / FIRST])
    assert document.findings == []
    assert {hint.rule for hint in document.hints} <= program.hints, document.hints
