"""An input that differs and changes no result is no divergence of two programs, where one of them made it by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.compare.dumps import call, tensor, write

SCORES, MASKED, ADDED, WEIGHTS = tensor(2.0), tensor(Min=-10000.0), tensor(Min=-9998.0), tensor(0.5)


def _runs(tmp_path: Path, *, made: bool = True, weights: dict[str, object] = WEIGHTS) -> list[Path]:
    softmax = "Functional.softmax.0.forward"
    target = {"Torch.where.0.forward": call([SCORES], [MASKED])} if made else {}
    golden = {"Tensor.__add__.0.forward": call([SCORES], [ADDED])} if made else {}
    return [
        write(tmp_path / "target", {**target, softmax: call([MASKED], [weights])}),
        write(tmp_path / "golden", {**golden, softmax: call([ADDED], [WEIGHTS])}),
    ]


def test_a_masked_score_has_no_effect(tmp_path: Path) -> None:
    result = msprobe.compare(*_runs(tmp_path), layer_mapping=True, output=tmp_path)
    assert result.verdict == "same"
    (row,) = [row for row in result.rows() if row.target == "Functional.softmax.0.forward.input.0"]
    assert row.level == "warning" and "it has no effect" in str(row.messages)


def test_it_is_a_divergence_where_the_result_differs(tmp_path: Path) -> None:
    result = msprobe.compare(*_runs(tmp_path, weights=tensor(0.75)), layer_mapping=True, output=tmp_path)
    assert result.verdict == "diverged"


def test_what_no_call_made_is_state_and_stays_a_divergence(tmp_path: Path) -> None:
    result = msprobe.compare(*_runs(tmp_path, made=False), layer_mapping=True, output=tmp_path)
    assert result.verdict == "diverged"


@pytest.mark.parametrize("options", [{}, {"policy": "reference"}])
def test_one_program_is_judged_as_before(tmp_path: Path, options: dict[str, str]) -> None:
    result = msprobe.compare(*_runs(tmp_path, made=False), output=tmp_path, **options)
    assert result.verdict == "diverged"
