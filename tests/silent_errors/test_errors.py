"""``msprobe check`` finds each silent error at its place, and nothing in their corrected twins and correct programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrices import matrix_params
from tests.silent_errors.catalogue import CORRECT, ERRORS, HERE, Error
from tests.silent_errors.evaluate import KINDS, chosen, is_at_place, judged, row_of
from tests.silent_errors.runs import Result

pytestmark = pytest.mark.torch
SAMPLE = (
    "errors-x_jxmnop",
    "errors-stackoverflow_60335387",
    "errors-transformers_33844",
    "errors-unregistered_layers",
    "twins-x_jxmnop",
    "twins-stackoverflow_60335387",
    "correct-accumulation",
    "correct-labels_of_its_own",
    "correct-tensor",
)
"""What CI runs too."""
LISTED, CORRECT_AT_LEAST, LINES = 18, 40, 30


def _gaps() -> dict[str, str]:
    lines = (HERE / "known_gaps.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name.replace(" ", "-"): reason for name, _, reason in pairs}


def _cases() -> list[object]:
    gaps = _gaps()
    result = []
    for kind, program in chosen((), KINDS):
        name = f"{kind}-{program.name}"
        marks = [pytest.mark.slow, *([pytest.mark.xfail(reason=gaps[name])] if name in gaps else [])]
        result.append(pytest.param(kind, program.name, id=name, marks=marks))
    return result


@pytest.mark.matrix("wide", sample=4)
@pytest.mark.parametrize(("kind", "name"), matrix_params("silent", _cases(), SAMPLE))
def test_a_run_is_judged_right(kind: str, name: str, tmp_path: Path) -> None:
    row = judged(tmp_path, next(iter(chosen([name], [kind]))))
    assert row.good, "\n".join((row.word, *row.says))


def test_the_list_is_complete() -> None:
    assert len({error.name for error in ERRORS if error.counted}) == LISTED
    assert len({program.name for program in CORRECT}) == len(CORRECT) >= CORRECT_AT_LEAST
    names = {f"{kind}-{program.name}" for kind, program in chosen((), KINDS)}
    assert names >= {*SAMPLE, *_gaps()}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.name)
def test_each_error_is_planted_once_in_a_real_program(error: Error) -> None:
    lines = error.file.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) >= LINES
    assert lines[error.planted_line() - 1].endswith(error.mark)
    assert any("given.fault" in line for line in lines)


def _finding(**facts: object) -> dict[str, object]:
    return {
        "rule": "r", "reason": "", "step": 0, "rank": None, "ranks": [], "module": None, "parameter": None,
        "call": None, "stack": [], **facts,
    }  # fmt: skip


ERROR = next(error for error in ERRORS if error.name == "pytorch_96600")


@pytest.mark.parametrize(
    ("finding", "right"),
    [
        (_finding(parameter="lstm.weight_hh_l0", ranks=[0, 1]), True),
        (_finding(parameter="decoder.weight"), False),
        (_finding(parameter="lstm.weight_hh_l0", step=ERROR.by + 1), False),
        (_finding(parameter="lstm.weight_hh_l0", ranks=[0]), False),
        (_finding(stack=[f"File /a/{ERROR.file.name}, line {ERROR.planted_line()}, in main"]), True),
        (_finding(stack=[f"File /a/{ERROR.file.name}, line {ERROR.planted_line()}0, in main"]), False),
    ],
)
def test_a_finding_counts_at_its_place_only(finding: dict[str, object], right: bool) -> None:
    assert is_at_place(finding, ERROR) is right
    row = row_of("errors", ERROR, Result([finding]))
    assert row.good is right and row.word == ("found" if right else "WRONG PLACE")


def test_a_finding_of_another_kind_does_not_count() -> None:
    error = next(error for error in ERRORS if error.name == "accelerate_2665")
    assert is_at_place(_finding(parameter="head.weight", reason="no optimizer holds it"), error)
    assert not is_at_place(_finding(parameter="head.weight", reason="it is NaN"), error)


def test_a_hint_is_no_finding_and_a_finding_on_a_correct_program_is_false() -> None:
    hint = _finding(parameter="lstm.weight_hh_l0")
    assert row_of("errors", ERROR, Result(hints=[hint])).word == "HINT ONLY"
    assert row_of("errors", ERROR, Result()).word == "MISSED"
    assert not row_of("twins", ERROR, Result([hint])).good
    assert row_of("twins", ERROR, Result(hints=[hint])).good
    assert not row_of("correct", CORRECT[0], Result(failed="Traceback")).good
