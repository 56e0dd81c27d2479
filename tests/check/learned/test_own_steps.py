"""A run is held to its own first steps."""

from __future__ import annotations

from msprobe.check.job import judge
from msprobe.check.learned.own_steps import judge_own_steps
from tests.check.learned.examples import EPS, run_of


def test_the_first_steps_of_a_run_give_hints_alone() -> None:
    run = run_of(EPS, 1e-5, 1e-5, 1e-5, 1e-5, 1e-3)
    (hint,) = judge_own_steps(run).findings
    assert hint.is_hint
    assert hint.step == 4
    assert judge_own_steps(run_of(EPS, 1e-5, 1e-5, 1e-3)).findings == []
    document = judge(run, judge_own_steps)
    assert [one.rule for one in document.hints] == ["learned:argument"]
    assert document.findings == []
