"""Known gaps: the cases that are judged wrongly today, each with what is said instead, in a file beside the tests."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.layout_bed.cases import LayoutCase
from tests.layout_bed.judge import Answer
from tests.matrices import matrix_params

_REASON = 200
"""Characters of an answer that are kept as a reason."""


def read_gaps(file: Path) -> dict[str, str]:
    """Return the name of each case that is judged wrongly -> why, or what is said instead."""
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def write_gaps(answers: Sequence[Answer], file: Path) -> None:
    """Write the wrong ones among ``answers`` to ``file``, where other cases stay; reasons there are kept."""
    known = read_gaps(file)
    others = {name: reason for name, reason in known.items() if name not in {answer.name for answer in answers}}
    wrong = {
        answer.name: known.get(answer.name, f"{answer.verdict}: {answer.said}"[:_REASON])
        for answer in answers
        if not answer.right
    }
    file.write_text(json.dumps({**others, **wrong}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def case_params(
    matrix: str, cases: Sequence[LayoutCase], sample: Collection[str], gaps: dict[str, str]
) -> list[object]:
    """Return the names of ``cases`` as parameters of a test of a matrix; a known gap has to fail."""
    marks = {name: [pytest.mark.xfail(reason=reason, strict=True)] for name, reason in gaps.items()}
    named = [pytest.param(case.name, id=case.name, marks=marks.get(case.name, [])) for case in cases]
    return matrix_params(matrix, named, sample)
