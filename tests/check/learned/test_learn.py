"""What is learned of examples."""

from __future__ import annotations

import pytest

from msprobe.check.learned.learn import learn
from msprobe.check.learned.relations import LearnedRelations
from msprobe.check.learned.table import Value
from tests.check.learned.examples import CALLS, EPS, ORDER, ROWS, SIZE, findings, run_of


@pytest.mark.parametrize(
    ("subject", "values"),
    [
        (EPS, (1e-5, 1e-5)),
        (EPS, (1e-5, 1e-5, 1e-3, 1e-3)),
        (ROWS, (True, True, False, True)),
        (ROWS, (False, False, False)),
        (CALLS, (("a",), ("b",), ("a",))),
        (ORDER, (("a", "b"), ("b", "a"), ("a", "b"))),
        (SIZE, (0.0, float("inf"), 0.0)),
    ],
)
def test_nothing_is_learned_from_few_examples_or_against_one(
    subject: tuple[str, ...], values: tuple[Value, ...]
) -> None:
    assert learn([run_of(subject, *values)]).relations == []


def test_several_runs_are_examples_together_and_contradict_each_other() -> None:
    two = run_of(EPS, 1e-5, 1e-5)
    assert learn([two, two]).relations[0].support.examples == 4
    assert learn([two, two, run_of(EPS, 1e-3)]).relations == []


def test_what_holds_from_the_second_step_on_is_learned_for_those() -> None:
    (relation,) = learn([run_of(EPS, 0.5, 1e-5, 1e-5, 1e-5)]).relations
    assert relation.from_step == 1
    relations = LearnedRelations([relation], 1, 4, 1)
    assert findings(relations, run_of(EPS, 0.7, 1e-5)) == []
    assert [one.step for one in findings(relations, run_of(EPS, 0.5, 0.5))] == [1]
