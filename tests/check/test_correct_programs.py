"""Nothing is found in correct trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.recorded import judged
from tests.matrices import matrix_params

pytest.importorskip("torch")

from tests.check.correct_programs import PROGRAMS, TRANSFORMERS, averaged_copy, transformer, transformer_in_autocast
from tests.check.functional_programs import FUNCTIONAL
from tests.check.lookalike_programs import LOOKALIKES

CORRECT = PROGRAMS | LOOKALIKES | FUNCTIONAL

SAMPLE = {
    *("convolutions_with_validation", "low_rank_adapters", "adversaries", "accumulated", "cleared_by_hand"),
    *("scaled", "teacher", "value_learning", "t5", "narrow_gates"),
    *("attack_on_data", "combined_gradients", "pairs_on_purpose", "copied_text"),
    *FUNCTIONAL,
}


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", matrix_params("check", CORRECT, SAMPLE))
def test_nothing_is_found_in_a_correct_training(tmp_path: Path, name: str) -> None:
    document = judged(tmp_path / "dump", CORRECT[name])
    assert document.findings == []
    assert sum(state.judged for state in document.rules) > 20


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", matrix_params("check", TRANSFORMERS, SAMPLE))
def test_nothing_is_found_in_models_of_transformers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers")
    assert judged(tmp_path / "float32", transformer, name).findings == []
    assert judged(tmp_path / "autocast", transformer_in_autocast, name).findings == []


@pytest.mark.torch
@pytest.mark.parametrize("repeated", [False, True])
def test_an_evaluation_in_some_steps_is_no_batch_of_theirs(tmp_path: Path, repeated: bool) -> None:
    hints = [one.rule for one in judged(tmp_path / "dump", averaged_copy, repeated).hints]
    assert ("batches_repeat" in hints) is repeated
