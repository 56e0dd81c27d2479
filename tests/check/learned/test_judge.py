"""Runs are held to relations; violations of one cause are one finding."""

from __future__ import annotations

import pytest

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import Seen, SeenValue, StepFacts
from msprobe.check.learned.judge import Judge, violated
from msprobe.check.learned.learn import learn
from msprobe.check.learned.table import Value
from tests.check.learned.examples import CALLS, EPS, ORDER, ROWS, SIZE, findings, run_of


@pytest.mark.parametrize(
    ("subject", "good", "bad", "words"),
    [
        (EPS, (1e-5, 1e-5, 1e-5), 1e-3, "the eps of layer_norm is 1e-05: this held in all 3 examples of 3 steps"),
        (ROWS, (True, True, True), False, "this does not hold"),
        (CALLS, (("backward", "clear"), ("backward", "clear"), ("backward", "step", "clear")), ("backward",),
         "clear is missing"),
        (ORDER, (("a", "b", "c"), ("a", "c"), ("b", "c")), ("c", "a"), "the order is c, a"),
        (SIZE, (0.0, 0.5, 0.25), 9.0, "it is 512"),
        (SIZE, (0.0, 0.5, 0.25), float("inf"), "it is no finite number"),
    ],
)  # fmt: skip
def test_what_held_in_all_examples_is_learned_and_held_against_others(
    subject: tuple[str, ...], good: tuple[Value, ...], bad: Value, words: str
) -> None:
    relations = learn([run_of(subject, *good)])
    assert len(relations.relations) == 1
    assert findings(relations, run_of(subject, *good)) == []
    (found,) = findings(relations, run_of(subject, good[0], bad, bad))
    assert (found.rule, found.step, found.call) == (f"learned:{subject[0]}", 1, "call1")
    assert words in found.reason


def test_a_size_near_its_band_is_a_hint_and_one_far_above_it_a_finding() -> None:
    (relation,) = learn([run_of(SIZE, 0.0, 0.0, 0.0)]).relations
    said = [violated(relation, size) for size in (0.0, 3.5, -3.5, 5.0, -5.0, -20.0, 7.5)]
    assert said == [None, None, None, "possible", "possible", "possible", "likely"]


def test_another_model_of_the_kind_is_held_to_the_same_relations() -> None:
    relations = learn([run_of(EPS, 1e-5, 1e-5, 1e-5)])
    assert findings(relations, run_of(EPS, 1e-3, path="model.layers.{n}.norm"))
    assert findings(relations, run_of(EPS, 1e-3, path="encoder.norm")) == []
    notes = Judge(relations, "relations.json")(run_of(EPS, 1e-3, path="encoder.norm")).notes
    assert notes[0].startswith("Held to 0 of 1 relations of relations.json; ")


def test_one_cause_is_one_finding_at_its_first_place() -> None:
    relations = learn([run_of(EPS, 1e-5, 1e-5, 1e-5)])
    facts = [
        StepFacts(0, rank, "", "mix", "pytorch", seen=[Seen(*EPS, values=[
            SeenValue(1e-3, 2, "late", 9, "layers.1.norm"), SeenValue(1e-2, 1, "early", 4, "layers.0.norm"),
        ])]) for rank in (0, 1)
    ]  # fmt: skip
    (found,) = findings(relations, RunFacts.from_steps(facts))
    assert (found.call, found.module, found.ranks) == ("early", "layers.0.norm", (0, 1))
    assert "the same at 1 further places, such as layers.1.norm" in found.reason
