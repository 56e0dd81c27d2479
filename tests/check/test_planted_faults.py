"""Each planted fault is found by its rule and at its place, and nothing is found in the same program without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.check.registry import RULES
from tests.check.recorded import judged
from tests.matrices import matrix_params

pytest.importorskip("torch")

from tests.check.planted_losses import PLANTED_LOSSES
from tests.check.planted_programs import PLANTED

FAULTS = PLANTED | PLANTED_LOSSES
HINTS = {rule.name for rule in RULES if rule.certainty == "possible"}
"""Rules that a correct program may break too."""

SAMPLE = {
    *(
        "cut_path",
        "head_alone",
        "replaced_head",
        "never_cleared",
        "never_cleared_in_closure",
        "other_schedule",
        "dropout_in_evaluation",
    ),
    *("thawed_by_train", "too_many_tokens", "one_layer_uncast", "sees_next", "begun_again", "untied", "exploding"),
    *(
        "softmax_twice",
        "same_token",
        "all_pairs",
        "cut_sample",
        "penalty_without_graph",
        "cleared_between_losses",
        "factor_of_zero",
        "both_zero",
    ),
}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", matrix_params("check", FAULTS, SAMPLE))
def test_a_planted_fault_is_found_at_its_place(tmp_path: Path, name: str) -> None:
    program, rule, place = FAULTS[name]
    document = judged(tmp_path / "wrong", program, True)
    found = document.hints if rule in HINTS else document.findings
    assert rule in [one.rule for one in found]
    first = next(one for one in found if one.rule == rule)
    assert place in f"{first.module} {first.parameter} {first.call}"
    assert first.step is not None
    assert first.stack, "there is a line to look at"
    right = judged(tmp_path / "right", program, False)
    assert right.findings == []
    assert rule not in {one.rule for one in right.hints} & HINTS
