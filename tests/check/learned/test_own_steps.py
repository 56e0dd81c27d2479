"""A run is held to its own first steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import Update
from msprobe.check.job import judge
from msprobe.check.learned.own_steps import judge_own_steps
from tests.check.learned.examples import EPS, run_of
from tests.check.made_facts import parameter


def test_the_first_steps_of_a_run_give_hints_alone() -> None:
    run = run_of(EPS, 1e-5, 1e-5, 1e-5, 1e-5, 1e-3)
    (hint,) = judge_own_steps(run).findings
    assert hint.is_hint
    assert hint.step == 4
    assert judge_own_steps(run_of(EPS, 1e-5, 1e-5, 1e-3)).findings == []
    document = judge(run, judge_own_steps)
    assert [one.rule for one in document.hints] == ["learned:argument"]
    assert document.findings == []


def test_a_part_that_ends_like_another_one_is_no_example_of_it() -> None:
    """The optimizer holds the parameters of the student, and those of the teacher in no step."""
    held = "consistent", "parameter", "fc.weight", "held by an optimizer", "requires a gradient", "holds"
    student = run_of(held, True, True, True, True, True)
    teacher = run_of(held, False, False, False, False, False, path="Teacher.fc.weight")
    for key, facts in student.of.items():
        facts.seen.extend(teacher.of[key].seen)
    assert judge_own_steps(RunFacts(student.of)).findings == []
    student.of[4, 0].seen[0].values[0] = teacher.of[4, 0].seen[0].values[0]
    (hint,) = judge_own_steps(RunFacts(student.of)).findings
    assert "fc.weight (requires a gradient): held by an optimizer" in hint.reason and hint.step == 4


@pytest.mark.parametrize(("kind", "frozen", "told"), [("SGD", False, []), ("Adam", True, []), ("Adam", False, [4])])
def test_another_phase_is_held_to_its_own_beginning(kind: str, frozen: bool, told: list[int]) -> None:
    """Another optimizer begins one, and other parameters that train."""

    def hints(*values: float) -> list[int | None]:
        steps = []
        for number, one in enumerate(run_of(EPS, *values).every()):
            update = Update(0, kind if number > 3 else "Adam", (0.1,), ("fc.weight",), None, (), (), 0, 1, ())
            weight = parameter(1.0, 1.0)._replace(requires_grad=number > 3 or not frozen)
            steps.append(replace(one, updates=[update], parameters={"fc.weight": weight}))
        return [one.step for one in judge_own_steps(RunFacts.from_steps(steps)).findings]

    assert hints(1e-5, 1e-5, 1e-5, 1e-5, 1e-3, 1e-3, 1e-3, 1e-3) == told
    assert hints(1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-3) == [7]
