"""A rule without the facts that it needs is not judged."""

from __future__ import annotations

import pytest

from msprobe.check.job import judge
from tests.check.made_facts import facts, module, run_of

OF_EVALUATION = {"dropout_in_evaluation", "modes_disagree"}
WITHOUT_GRADIENTS = {"training_mode_in_evaluation"}


@pytest.mark.parametrize(
    ("training", "autograd", "judged"),
    [
        (True, "grad", set()),
        (False, "grad", OF_EVALUATION),
        (True, "no_grad", WITHOUT_GRADIENTS),
        (False, "inference", OF_EVALUATION | WITHOUT_GRADIENTS),
    ],
)
def test_rules_of_evaluation_need_one(training: bool, autograd: str, judged: set[str]) -> None:
    passes = [module("fc", 1.0), module("fc", 1.0, training=training, autograd=autograd)]
    states = [
        one for one in judge(run_of(facts(modules=passes))).rules if one.name in OF_EVALUATION | WITHOUT_GRADIENTS
    ]
    assert {one.name for one in states if one.judged} == judged
    assert all(one.why for one in states if not one.judged)
